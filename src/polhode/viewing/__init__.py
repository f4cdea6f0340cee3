"""Pictures of runs: figures, scenes, pages for the browser, films, and files for other viewers.

In: a solution with the scene of its problem. Out: PNG, HTML, mp4, glTF, VTK, or a server of pages. Open first:
`scene/scene.py` (parts as plain data), then `page/payload.py` (a run as the page takes it). `polhode/solution/show.py`
chooses among browser and notebook.
"""
