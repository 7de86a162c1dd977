"""Convolutions of images and volumes over affine groups, and frames of images."""
