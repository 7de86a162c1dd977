"""SO(2) convolutions: products in the frame of each edge, by orders."""
