"""Layers that normalize the size of features."""
