"""Multibody models."""

from polhode.model.bodies import Body as Body
from polhode.model.bodies import rotation_vector as rotation_vector
from polhode.model.model import Model as Model
from polhode.model.multibody import MultibodySystem as MultibodySystem
