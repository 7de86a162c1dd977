"""MNIST as published, and digits moved by affine maps and homographies."""
