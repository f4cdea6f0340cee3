"""Joint coordinates: bodies carried by the joints of a tree."""
