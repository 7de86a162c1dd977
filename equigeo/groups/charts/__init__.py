"""Coordinates of groups: the logarithm of the stretch and the angles of the rotation."""
