"""Values that users' functions capture, as part of the identity of programs.

Compiled programs are found again by what they were made from. A function is told from others by its code and by the
values of everything that it captures: variables of enclosing functions, defaults, attributes of the object that it
belongs to and of its class, and globals of the user's own modules, in their turn with what they capture. Equal
functions share a program, and a captured number that has changed since makes a new one. The rule is documented in
`docs/extend.md`.

- `origin`: who wrote a function or class. - `inspection`: the parts of Python objects.
- `walk`: keys of values, and `lasting_keys`: those that are the same in every process.
- `functions`: functions with what they capture. - `arguments`, `programs`: compiled programs by what they are made of.
"""

from polhode.captured.functions import AbstractHolder as AbstractHolder
from polhode.captured.functions import Captured as Captured
from polhode.captured.functions import Identity as Identity
from polhode.captured.functions import lasts as lasts
from polhode.captured.functions import settled as settled
from polhode.captured.lasting_keys import lasting as lasting
from polhode.captured.lasting_keys import signature as signature
from polhode.captured.programs import KEPT as KEPT
from polhode.captured.programs import Arguments as Arguments
from polhode.captured.programs import compiled as compiled
from polhode.captured.programs import forget as forget
from polhode.captured.programs import found as found
