"""Clebsch-Gordan products, modules that hold one, and measurements of any product."""
