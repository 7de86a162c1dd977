"""What features on group samples share, whatever they lie on: sums, pooling, norms, checks."""
