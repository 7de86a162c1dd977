"""Rotations into frames of one cloud: pure functions of its coordinates."""
