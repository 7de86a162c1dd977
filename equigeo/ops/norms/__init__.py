"""Norms of rows of features."""
