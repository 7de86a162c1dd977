"""Functions of matrices that stay differentiable where eigenvalues meet."""
