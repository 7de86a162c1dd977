"""Conversion of edges, meshes and their graphs from and to PyTorch Geometric."""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.interop.pyg.meshes import (
    batch_to_ptr,
    edge_index,
    primal_dual_graph,
    ptr_to_batch,
    to_data,
    to_edge_index,
    triangle_mesh,
    triangle_meshes,
)

__all__ = ["edge_index", "primal_dual_graph", "to_data", "to_edge_index", "triangle_mesh"]
__dir__ = __all__.copy

__getattr__ = renamed(
    __name__,
    {
        "batch_to_ptr": Renamed("torch_geometric.index.index2ptr", "0.3", batch_to_ptr),
        "ptr_to_batch": Renamed("torch_geometric.index.ptr2index", "0.3", ptr_to_batch),
        "triangle_meshes": Renamed("pyg.triangle_mesh", "0.3", triangle_meshes),
    },
)
