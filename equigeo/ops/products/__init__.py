"""Bilinear products of rows along the paths of a table."""
