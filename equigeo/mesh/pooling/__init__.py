"""Pooling by contraction of adjacent faces, and its inverse."""
