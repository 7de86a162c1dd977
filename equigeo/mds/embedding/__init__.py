"""Invariant coordinates of point clouds, their frames, and averages over frames."""
