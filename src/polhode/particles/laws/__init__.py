"""Laws of contacts with history: parts for the normal, for friction, for rolling and twisting, and for liquid bridges.

In: two spheres close to each other (`touch.py`) and what their contact remembers. Out: what acts, and what it remembers
then. Open first: `contact_law.py`, then `slider.py`; every law has a file.
"""
