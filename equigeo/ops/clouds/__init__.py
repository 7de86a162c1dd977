"""Ops on point clouds: principal axes and their rounding errors."""
