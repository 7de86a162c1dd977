"""Convolutions on the primal and the dual graph of a mesh."""
