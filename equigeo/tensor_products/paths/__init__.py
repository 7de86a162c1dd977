"""Paths of a product: instructions, factors and evaluation."""
