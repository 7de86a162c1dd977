"""Layers for 3D geometry in PyTorch, with symmetry declared and checked."""

__version__ = "0.1.0"
