"""Motions as files of other viewers: glTF and ParaView's VTK.

Open first: `gltf.py`.
"""
