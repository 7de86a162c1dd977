"""Convolutions of images and volumes over affine groups, and the frames that images carry."""
