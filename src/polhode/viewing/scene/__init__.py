"""Scenes: drawable parts as plain data with their poses over a run, independent of any renderer.

Open first: `scene.py`.
"""
