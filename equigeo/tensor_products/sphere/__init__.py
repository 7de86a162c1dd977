"""Functions on the sphere: bases, harmonics of scalars and vectors, grids."""
