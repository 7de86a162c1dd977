"""Conversion of graphs and meshes to PyTorch Geometric."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import torch

from equigeo.graphs import EdgeIndex
from equigeo.interop._require import require_pyg
from equigeo.mesh import PrimalDualGraph, TriangleMesh


@singledispatch
def to_data(value: Any) -> Any:
    """Convert graphs and meshes to data of PyTorch Geometric, sharing memory where possible.

    ==================  ==========================================================================
    EdgeIndex           ``Data(edge_index, num_nodes)``, edges in the given order
    TriangleMesh        ``Data(pos, face)``, positions in the default dtype
    PrimalDualGraph     ``HeteroData`` with the node types ``"primal"`` and ``"dual"``, features
                        ``x`` and, for several meshes, ``batch``; edge type ``"adjacent"`` in both,
                        and ``("primal", "crosses", "dual")``: source and dual node of each primal
                        edge. Also ``kind``, ``feature_set`` and ``graphs``, but no geometry.
    ==================  ==========================================================================

    Examples
    --------
    >>> import torch
    >>> edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2], [1, 0, 1]]), 3, 3)
    >>> to_data(edges)  # doctest: +SKIP
    Data(edge_index=[2, 3], num_nodes=3)
    """
    raise TypeError(
        f"expected an EdgeIndex, a TriangleMesh or a PrimalDualGraph, got {type(value).__name__}"
    )


@to_data.register
def _(value: EdgeIndex) -> Any:
    if value.num_sources != value.num_targets:
        raise ValueError(
            f"Data has one set of nodes, the edges join {value.num_sources} sources and "
            f"{value.num_targets} targets: use pyg.to_edge_index"
        )
    return require_pyg().data.Data(edge_index=value.edge_index, num_nodes=value.num_sources)


@to_data.register
def _(value: TriangleMesh) -> Any:
    pos = value.vertices.to(torch.get_default_dtype())
    return require_pyg().data.Data(pos=pos, face=value.faces.T.contiguous())


@to_data.register
def _(value: PrimalDualGraph) -> Any:
    data = require_pyg().data.HeteroData()
    data["primal"].x, data["dual"].x = value.x_primal, value.x_dual
    if value.num_graphs != 1:  # a loader numbers single graphs itself
        data["primal"].batch, data["dual"].batch = value.primal_batch, value.dual_batch
    primal = value.primal.edge_index
    data["primal", "adjacent", "primal"].edge_index = primal
    data["dual", "adjacent", "dual"].edge_index = value.dual_edges.edge_index
    crosses = torch.stack((primal[0], value.edge_to_dual))
    data["primal", "crosses", "dual"].edge_index = crosses
    data.kind, data.feature_set, data.graphs = value.dual.value, value.features, value.num_graphs
    return data
