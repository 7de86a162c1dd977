"""Spherical harmonics and products of functions on the sphere."""
