"""Equivariant layer and RMS normalization."""
