"""Models as files of other programs: MJCF.

In: a model. Out: the text of a file, or an error that names what it can't say. Open first: `mjcf.py`.
"""
