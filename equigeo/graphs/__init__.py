"""Graphs: neighbour lists, and edges sorted once for forward and backward passes."""

from equigeo.graphs.edge_index import EdgeIndex
from equigeo.graphs.neighbors.knn_graph import knn_graph
from equigeo.graphs.neighbors.neighbor_list import neighbor_list
from equigeo.graphs.neighbors.radius_graph import radius_graph
from equigeo.graphs.neighbors.result import NeighborList
from equigeo.graphs.neighbors.verlet_list import VerletList

__all__ = [
    "EdgeIndex",
    "NeighborList",
    "VerletList",
    "knn_graph",
    "neighbor_list",
    "radius_graph",
]


def __dir__() -> list[str]:
    return __all__
