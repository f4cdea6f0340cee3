"""From the parts of a model to equations of motion: names, coordinates, spanning trees, consistent starts.

In: bodies, joints and forces of a `Model`. Out: a `MultibodySystem` with its start. Open first: `assembly.py`; a layout
(`absolute_assembly.py`, `tree_assembly.py`) numbers the bodies and makes their coordinates.
"""
