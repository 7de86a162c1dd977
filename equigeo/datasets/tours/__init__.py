"""Instances of the travelling-salesman problem and their shortest tours."""
