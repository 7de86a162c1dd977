"""Convolutions of point clouds over affine groups, and frames of clouds."""
