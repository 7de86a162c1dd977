"""Clebsch-Gordan products, what holds one, and what measures any."""
