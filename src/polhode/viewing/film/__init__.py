"""Films and still pictures, rendered by NumPy: no display and no graphics card.

Open first: `film.py`.
"""
