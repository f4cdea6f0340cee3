"""`Solution`, the result of a run, with loading, saving, export and display.

In: frames with statistics, from a run or a store. Out: results by name, tables, files, pages. Open first:
`solution.py`; `export.py` has the formats, `show.py` the browser and notebooks.
"""

from polhode.solution.export import export as export
from polhode.solution.load import load as load
from polhode.solution.solution import Solution as Solution
