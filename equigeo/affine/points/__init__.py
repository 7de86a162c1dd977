"""Convolutions of point clouds over affine groups, and the frames that clouds carry."""
