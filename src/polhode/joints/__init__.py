"""Joints: constraints between bodies.

In: bodies, points and axes in the inertial frame at the start. Out: constraint elements in the frames of the bodies,
and relative motions for trees. Open first: `lower_pairs.py`; `place` of a joint makes its element by `_pair.py`, and
`_elements.py` has the residuals of elements, a row for each constraint.
"""

import lazy_loader

from polhode.name_errors import getattr_with_suggestions

# `__init__.pyi` lists the names; each is loaded when it is first used, since a model has few of them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_COUPLING_ADVICE = (
    "Couple joint coordinates by a stiff spring along a combination of them, "
    "`forces.JointSpring(joints.Combination([first, second], [ratio, -1]), stiffness=…)`; MJCF files couple them "
    "exactly by an equality of joints."
)
_SUGGESTIONS = {
    **dict.fromkeys(
        ("Gear", "Gears", "GearPair", "Belt", "Rack", "RackAndPinion", "Differential", "Coupling"), _COUPLING_ADVICE
    ),
    **dict.fromkeys(("Ball", "BallJoint"), "It is called `Spherical`; a ball that rolls is `RollingBall`."),
    **dict.fromkeys(("Hinge", "Pin", "Revolve"), "It is called `Revolute`."),
    **dict.fromkeys(("Slider", "Slide", "Translational"), "It is called `Prismatic`."),
    **dict.fromkeys(("Weld", "Rigid", "Lock"), "It is called `Fixed`."),
    **dict.fromkeys(("Rod", "Link"), "A massless rod is `Distance`; elastic rods come by `model.add_rod`."),
    **dict.fromkeys(("Free", "Floating"), "Bodies without a joint move freely; none is needed."),
    **dict.fromkeys(
        ("Motor", "Drive"), "A drive is `PrescribedRotation` beside a `Revolute`; a torque is `forces.Actuator`."
    ),
}

__getattr__ = getattr_with_suggestions(__name__, __getattr__, __all__, _SUGGESTIONS)
