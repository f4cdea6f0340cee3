"""Runs as HTML pages: the payload, the page itself (`web/`), and the server of runs that still go on.

Open first: `payload.py`.
"""
