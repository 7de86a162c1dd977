"""Finite weighted samples of groups, and how to draw them."""
