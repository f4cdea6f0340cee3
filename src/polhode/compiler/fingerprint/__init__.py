"""Fingerprints of functions and objects: the keys of compiled programs.

A function is identified by its code and by the values of everything that it captures: variables of enclosing
functions, defaults, attributes of its object and class, and globals of the user's own modules, with what these capture.
Equal functions share a program; another value of a captured number needs a new one. `docs/extend.md` has the rule.

In: any object. Out: a hashable key, valid in this process (`process_keys`) or in every one (`persistent_keys`).
Open first: `object_walk.py`, which traverses an object graph and hashes it. `provenance.py` says who wrote a function.
"""

from polhode.compiler.fingerprint.closures import AbstractHolder as AbstractHolder
from polhode.compiler.fingerprint.closures import Closure as Closure
from polhode.compiler.fingerprint.closures import FunctionIdentity as FunctionIdentity
from polhode.compiler.fingerprint.closures import frozen as frozen
from polhode.compiler.fingerprint.closures import is_immutable as is_immutable
from polhode.compiler.fingerprint.persistent_keys import fingerprint as fingerprint
from polhode.compiler.fingerprint.persistent_keys import persistent_key as persistent_key
