"""The numerical experiments of the papers; each module registers its own."""
