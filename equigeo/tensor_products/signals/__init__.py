"""Products of functions on the sphere, as the coefficients of signals."""
