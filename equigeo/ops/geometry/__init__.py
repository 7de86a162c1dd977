"""Ops on points, directions and signals on the sphere."""
