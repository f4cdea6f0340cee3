"""Linear algebra of constrained mechanics, chosen by structure."""

from polhode.linalg.blocks import Blocks as Blocks
from polhode.linalg.blocks import Indices as Indices
from polhode.linalg.blocks import Matrix as Matrix
from polhode.linalg.choose import kkt_solver as kkt_solver
from polhode.linalg.kkt import AbstractKKT as AbstractKKT
