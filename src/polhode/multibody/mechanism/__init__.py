"""The mechanism of a model: elements between nodes, written in poses and twists.

In: poses and twists of nodes. Out: potentials, constraint residuals, loads, and their tangents. Open first:
`mechanism.py`; `elements.py` has the interfaces of joints and forces.
"""
