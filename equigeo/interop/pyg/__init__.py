"""Conversion of edges, meshes and their graphs from and to PyTorch Geometric."""

from equigeo._deprecation import Renamed, renamed
from equigeo.interop.pyg.edge_index import edge_index, to_edge_index
from equigeo.interop.pyg.primal_dual_graph import primal_dual_graph
from equigeo.interop.pyg.segments import batch_to_ptr as _batch_to_ptr
from equigeo.interop.pyg.segments import ptr_to_batch as _ptr_to_batch
from equigeo.interop.pyg.to_data import to_data
from equigeo.interop.pyg.triangle_mesh import triangle_mesh
from equigeo.interop.pyg.triangle_mesh import triangle_meshes as _triangle_meshes

__all__ = [
    "edge_index",
    "primal_dual_graph",
    "to_data",
    "to_edge_index",
    "triangle_mesh",
]

__getattr__ = renamed(
    __name__,
    {
        "batch_to_ptr": Renamed("torch_geometric.index.index2ptr", "0.3", _batch_to_ptr),
        "ptr_to_batch": Renamed("torch_geometric.index.ptr2index", "0.3", _ptr_to_batch),
        "triangle_meshes": Renamed("pyg.triangle_mesh", "0.3", _triangle_meshes),
    },
)


def __dir__() -> list[str]:
    return __all__
