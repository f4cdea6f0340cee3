"""Forces: loads on bodies.

In: bodies or joint coordinates, and laws. Out: force elements, which make wrenches of poses and twists. Open first:
`spring_damper.py`; `__init__.pyi` has all names.
"""

import lazy_loader

from polhode.name_errors import getattr_with_suggestions

# `__init__.pyi` lists the names; each is loaded when it is first used, since a model has few of them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_SUGGESTIONS = {
    **dict.fromkeys(
        ("Spring", "Damper"), "Between points it is `SpringDamper`, along a joint coordinate `JointSpring`."
    ),
    **dict.fromkeys(("Force", "Thrust"), "It is called `PointForce`; functions of the motion are a `Load`."),
    **dict.fromkeys(("String", "Rope", "Cable", "Muscle"), "It is `Tendon`; one that can't stretch is `JointStops`."),
    **dict.fromkeys(("Motor", "Servo"), "It is `Actuator` along a joint; `PD` and `PID` follow a target."),
    **dict.fromkeys(
        ("Friction", "CoulombFriction"),
        "Dry friction along a joint coordinate is `JointFriction`, of a ball joint `PivotFriction`.",
    ),
    **dict.fromkeys(
        ("Contact", "GroundContact"),
        "Shapes touch by `model.add_contact(…, law='compliant')`; a sphere on a plane is `PlaneContact` as well.",
    ),
    "Gravity": "It belongs to the model: `Model(gravity=(0, 0, -9.81))`.",
    **dict.fromkeys(("Control", "Controller"), "Control of several joints is `JointControl`; `PD` and `PID` have one."),
}

__getattr__ = getattr_with_suggestions(__name__, __getattr__, __all__, _SUGGESTIONS)
