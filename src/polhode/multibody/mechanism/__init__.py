"""The mechanism of a model: elements between nodes, in terms of poses and twists alone.

In: poses and twists of nodes. Out: potentials, constraint residuals, loads, and their tangents. Open first:
`mechanism.py`; `elements.py` has what joints and forces implement.
"""
