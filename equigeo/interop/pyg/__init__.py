"""Conversion of edges, meshes and their graphs from and to PyTorch Geometric."""

from equigeo.interop.pyg.edge_index import edge_index, to_edge_index
from equigeo.interop.pyg.primal_dual_graph import primal_dual_graph
from equigeo.interop.pyg.segments import batch_to_ptr, ptr_to_batch
from equigeo.interop.pyg.to_data import to_data
from equigeo.interop.pyg.triangle_mesh import triangle_mesh, triangle_meshes

__all__ = [
    "batch_to_ptr",
    "edge_index",
    "primal_dual_graph",
    "ptr_to_batch",
    "to_data",
    "to_edge_index",
    "triangle_mesh",
    "triangle_meshes",
]


def __dir__() -> list[str]:
    return __all__
