"""Runs on disk and in other formats."""
