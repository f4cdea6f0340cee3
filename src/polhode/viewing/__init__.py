"""Looking at runs: figures, scenes, pages for the browser."""
