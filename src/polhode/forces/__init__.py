"""Forces: loads on bodies."""

from polhode.forces.bushing import Bushing as Bushing
from polhode.forces.controllers import PD as PD
from polhode.forces.controllers import PID as PID
from polhode.forces.joint_control import JointControl as JointControl
from polhode.forces.joint_forces import Actuator as Actuator
from polhode.forces.joint_forces import JointFriction as JointFriction
from polhode.forces.joint_forces import JointSpring as JointSpring
from polhode.forces.joint_forces import JointStops as JointStops
from polhode.forces.loads import PointForce as PointForce
from polhode.forces.loads import Torque as Torque
from polhode.forces.plane_contact import PlaneContact as PlaneContact
from polhode.forces.spring_damper import SpringDamper as SpringDamper
from polhode.forces.torsional import TorsionalSpringDamper as TorsionalSpringDamper
from polhode.forces.user import Load as Load
from polhode.forces.user import Potential as Potential
