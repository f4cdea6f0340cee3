"""Linear algebra of constrained mechanics, chosen by structure.

In: the blocks of a saddle-point matrix. Out: a factorisation, and solutions. Open first: `kkt.py` for the interface,
`solver_choice.py` for which solver is chosen when, and `tree.py` for chains and trees of bodies.
"""

from polhode.linalg.blocks import Blocks as Blocks
from polhode.linalg.blocks import Indices as Indices
from polhode.linalg.blocks import Matrix as Matrix
from polhode.linalg.blocks import to_dense as to_dense
from polhode.linalg.bordered_tree import BorderedKKT as BorderedKKT
from polhode.linalg.compliant import CompliantKKT as CompliantKKT
from polhode.linalg.condensation import CondensedKKT as CondensedKKT
from polhode.linalg.dense import DefiniteKKT as DefiniteKKT
from polhode.linalg.dense import DenseKKT as DenseKKT
from polhode.linalg.dense import LapackKKT as LapackKKT
from polhode.linalg.dense import PivotingKKT as PivotingKKT
from polhode.linalg.elimination import EliminationKKT as EliminationKKT
from polhode.linalg.kkt import AbstractKKT as AbstractKKT
from polhode.linalg.rank import redundancy as redundancy
from polhode.linalg.solver_choice import kkt_solver as kkt_solver
from polhode.linalg.sparse import SparseKKT as SparseKKT
from polhode.linalg.tree import TreeKKT as TreeKKT
