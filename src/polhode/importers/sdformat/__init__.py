"""Reader of SDFormat, the files of Gazebo, versions 1.4 to 1.11.

In: a document with the root `sdf`. Out: a `CompiledModel`. On the way:

- `documents`: the files that it includes are put into their places;
- `scopes`: worlds and models give names to links, joints and frames, and find poses by these names;
- `joints`: joints between links, placed where all of them are at zero; `couplings`: mimics and gearboxes;
- `tree`: a spanning tree of links for MuJoCo's compiler; the joints that are left over close loops;
- `inertials`, `shapes`, `losses`: masses, visuals, and what has no place in a model.

`values` reads numbers. Open first: `reader.py`.
"""
