"""The paths of a product: instructions, normalisation, coefficients, evaluation."""
