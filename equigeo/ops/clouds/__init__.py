"""Ops on point clouds: principal axes and what rounding does to them."""
