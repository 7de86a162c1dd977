"""Layers that all families share."""

from equigeo.nn.tables import Tables

__all__ = ["Tables"]
