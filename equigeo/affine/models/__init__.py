"""Networks on affine groups, and their parts."""
