"""Networks on affine groups, and what they are made of."""
