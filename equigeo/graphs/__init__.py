"""Graphs: neighbor lists, and edges sorted once for forward and backward passes."""

from equigeo.graphs.edge_index import EdgeIndex
from equigeo.graphs.neighbor_list import NeighborList, neighbor_list
from equigeo.graphs.radius_graph import knn_graph, radius_graph
from equigeo.graphs.verlet_list import VerletList

__all__ = ["EdgeIndex", "NeighborList", "VerletList", "knn_graph", "neighbor_list", "radius_graph"]


def __dir__() -> list[str]:
    return __all__
