"""How programs are run."""
