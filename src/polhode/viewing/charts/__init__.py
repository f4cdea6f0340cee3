"""Series that charts show: states, outputs, joints and forces, with units, thinned for pages.

Open first: `chart_series.py`.
"""
