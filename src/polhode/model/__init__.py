"""Multibody models."""

from polhode.model.flexible_body import FlexibleBody as FlexibleBody
from polhode.model.model import Model as Model
from polhode.model.parameters import Parameter as Parameter
from polhode.multibody.bodies import Body as Body
from polhode.multibody.bodies import rotation_vector as rotation_vector
from polhode.multibody.system import MultibodySystem as MultibodySystem
