"""Bonded particles: spheres with bonds that resist stretching, shearing, bending and torsion, contacts and walls.

In: places, diameters, bonds and materials. Out: a system for explicit methods, with neighbours that are searched for
during steps. Open first: `system.py`, then `interactions.py` and `neighbours.py`.
"""

from polhode.particles import builders as builders
from polhode.particles.bond_elements import Bond as Bond
from polhode.particles.bonds import BondMaterial as BondMaterial
from polhode.particles.bonds import Strength as Strength
from polhode.particles.builders import Layout as Layout
from polhode.particles.builders import block as block
from polhode.particles.builders import chain as chain
from polhode.particles.builders import packing as packing
from polhode.particles.builders import torus as torus
from polhode.particles.clump import Clump as Clump
from polhode.particles.clumps import Clumps as Clumps
from polhode.particles.cone import Cone as Cone
from polhode.particles.diagnostics import ContactNetwork as ContactNetwork
from polhode.particles.diagnostics import stress as stress
from polhode.particles.interactions import GrainStates as GrainStates
from polhode.particles.interactions import ParticleStates as ParticleStates
from polhode.particles.laws.capillary import CapillaryBridge as CapillaryBridge
from polhode.particles.laws.contact_law import ContactLaw as ContactLaw
from polhode.particles.laws.hertz import Hertz as Hertz
from polhode.particles.laws.hooke import Hooke as Hooke
from polhode.particles.laws.jkr import JKR as JKR
from polhode.particles.laws.resistance import RollingResistance as RollingResistance
from polhode.particles.laws.resistance import TwistingResistance as TwistingResistance
from polhode.particles.laws.tangential import Mindlin as Mindlin
from polhode.particles.laws.tangential import TangentialSpring as TangentialSpring
from polhode.particles.mesh_walls import Mesh as Mesh
from polhode.particles.model_particles import ParticleGroup as ParticleGroup
from polhode.particles.sharding import ShardedParticles as ShardedParticles
from polhode.particles.sharding import sharded as sharded
from polhode.particles.system import Particles as Particles
from polhode.particles.walls import AbstractWall as AbstractWall
from polhode.particles.walls import Box as Box
from polhode.particles.walls import Cylinder as Cylinder
from polhode.particles.walls import MovingWall as MovingWall
from polhode.particles.walls import Plane as Plane
