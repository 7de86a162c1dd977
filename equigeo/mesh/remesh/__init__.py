"""Remeshing to another number of faces."""
