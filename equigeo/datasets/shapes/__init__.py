"""Articulated animals and objects as closed surfaces, generated from nothing but a seed."""
