"""Cost, expressivity and couplings of products."""
