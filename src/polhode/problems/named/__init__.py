"""Problems by name, one a module: `heavy-top` is in `heavy_top.py`."""
