"""Coordinates of bodies; `get(name)` returns those that `Model.assemble` accepts.

In: coordinates of a body. Out: its pose and twist, and the parts that it has in the mass matrix. Open first: `base.py`,
then `lie_groups.py`.
"""

from __future__ import annotations

from polhode import checks
from polhode.multibody.formulations.base import AbstractFormulation as AbstractFormulation
from polhode.multibody.formulations.euler_angles import EulerAngles, EulerAnglesKinematic
from polhode.multibody.formulations.euler_parameters import EulerParameters
from polhode.multibody.formulations.lie_groups import DirectProduct, SemidirectProduct
from polhode.multibody.formulations.linear import MassPoint as MassPoint
from polhode.spaces.rigid import S3R3, SE3, RotationVectorR3
from polhode.spaces.rotations import S3, SO3, RotationVector

FORMULATIONS: dict[str, AbstractFormulation] = {
    "SO3xR3": DirectProduct(SO3()),
    "SE3": SemidirectProduct(SE3(), SO3()),
    "S3xR3": DirectProduct(S3()),
    "S3|xR3": SemidirectProduct(S3R3(), S3()),
    "rotation-vector": DirectProduct(RotationVector()),
    "rotation-vector|xR3": SemidirectProduct(RotationVectorR3(), RotationVector()),
    "euler-angles": EulerAngles(),
    "euler-angles-kinematic": EulerAnglesKinematic(),
    "euler-parameters": EulerParameters(),
}


def get(name: str) -> AbstractFormulation:
    """The coordinates of that name. Raises ValueError, with all names, for others."""
    return FORMULATIONS[checks.choice("formulation", name, FORMULATIONS)]
