"""Cubes with icons engraved in one side, generated from nothing but a seed."""
