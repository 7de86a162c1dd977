"""Graphs: edge lists sorted once, with the orders that forward and backward passes need."""

from equigeo.graphs.edge_index import EdgeIndex

__all__ = ["EdgeIndex"]


def __dir__() -> list[str]:
    return __all__
