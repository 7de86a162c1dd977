"""Products of signals on the sphere: Gaunt, curl, and those of vector signals."""
