"""Layers that give features a size that does not depend on the sample."""
