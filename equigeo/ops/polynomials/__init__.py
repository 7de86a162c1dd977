"""Polynomials of the channels of a row, with weights."""
