"""Reductions over segments of edges."""
