"""Rotations of edges onto the polar axis, and the convolution that mixes orders there."""
