"""Equivariant products of irreps as modules."""
