"""Models: built by users from bodies, joints and forces, and turned into problems.

In: calls such as `add_body`. Out: `problem()`, ready for `simulate`. Open first: `model.py`.
"""

from polhode.assembly.parameters import Parameter as Parameter
from polhode.flexible.flexible_body import FlexibleBody as FlexibleBody
from polhode.model.model import Model as Model
from polhode.multibody.bodies import Body as Body
from polhode.multibody.system import MultibodySystem as MultibodySystem
from polhode.spaces.rotation_input import rotation_vector as rotation_vector
