"""Paths of a product: instructions, their factors, and what evaluates them."""
