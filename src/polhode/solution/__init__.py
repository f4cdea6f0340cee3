"""`Solution`, the result of a run, with loading, saving, export and display.

In: frames with statistics, from a run or a store. Out: results by name, tables, files, pages. Open first:
`solution.py`; `export.py` has the formats, `show.py` the browser and notebooks.
"""

import lazy_loader

# The names are in `__init__.pyi`, and are loaded when they are used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
