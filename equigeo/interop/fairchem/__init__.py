"""Layers of fairchem-core, read without importing it."""
