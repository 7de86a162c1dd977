"""Equivariant maps between arbitrary representations of one group."""
