"""Configuration spaces: Lie groups and homogeneous spaces.

In: a point and an increment in the algebra. Out: the moved point, and rates and brackets of increments. Open first:
`base.py`, then `rotations.py`.
"""

from polhode.spaces import rodrigues as rodrigues
from polhode.spaces.base import AbstractGroup as AbstractGroup
from polhode.spaces.base import AbstractSpace as AbstractSpace
from polhode.spaces.checks import check_point as check_point
from polhode.spaces.coadjoint import CoadjointOrbit as CoadjointOrbit
from polhode.spaces.coordinates import Cayley as Cayley
from polhode.spaces.coordinates import Coordinates as Coordinates
from polhode.spaces.coordinates import SecondKind as SecondKind
from polhode.spaces.coordinates import with_coordinates as with_coordinates
from polhode.spaces.cotangent import Cotangent as Cotangent
from polhode.spaces.linear import Rn as Rn
from polhode.spaces.powers import Power as Power
from polhode.spaces.powers import PowerGroup as PowerGroup
from polhode.spaces.powers import power as power
from polhode.spaces.products import Product as Product
from polhode.spaces.products import ProductGroup as ProductGroup
from polhode.spaces.products import direct_s3_r3 as direct_s3_r3
from polhode.spaces.products import direct_so3_r3 as direct_so3_r3
from polhode.spaces.products import product as product
from polhode.spaces.rigid import S3R3 as S3R3
from polhode.spaces.rigid import SE3 as SE3
from polhode.spaces.rigid import RotationVectorR3 as RotationVectorR3
from polhode.spaces.rotations import S3 as S3
from polhode.spaces.rotations import SO3 as SO3
from polhode.spaces.rotations import RotationVector as RotationVector
from polhode.spaces.spheres import S2 as S2
from polhode.spaces.spheres import TS2 as TS2
