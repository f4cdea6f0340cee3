"""Joint coordinates: bodies carried by the joints of a tree.

In: joint positions and velocities. Out: poses, twists, and recursions in O(n). Open first: `coordinates.py`.
"""
