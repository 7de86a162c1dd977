"""Primal and dual graphs from data of PyTorch Geometric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from equigeo.interop.pyg.triangle_mesh import triangle_meshes
from equigeo.mesh import DualKind, PrimalDualGraph


def primal_dual_graph(data: Any, dual: DualKind | None = None) -> PrimalDualGraph:
    """Build or restore the two graphs of one mesh or of a batch.

    Parameters
    ----------
    data : torch_geometric.data.Data, HeteroData, or a Batch of either
        Meshes with ``pos`` and ``face``, whose features are computed in the default dtype; or
        results of :func:`to_data`, batched or not, whose features are kept.
    dual : DualKind, optional
        By default that of the HeteroData, and ``SINGLE`` for meshes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> pos = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> face = torch.tensor([[0, 0, 0, 1], [2, 1, 3, 2], [1, 3, 2, 3]])
    >>> graph = primal_dual_graph(SimpleNamespace(pos=pos, face=face))
    >>> graph.num_primal, graph.num_dual
    (4, 6)
    """
    if "primal" not in getattr(data, "node_types", ()):
        meshes = triangle_meshes(data if hasattr(data, "to_data_list") else [data])
        kind = DualKind.SINGLE if dual is None else dual
        return PrimalDualGraph.batch([PrimalDualGraph.from_mesh(mesh, kind) for mesh in meshes])
    kind = DualKind(_common("kind", data.kind)) if dual is None else dual
    num_graphs = _num_graphs(data)
    x_primal, primal = data["primal"].x, data["primal", "adjacent", "primal"].edge_index
    batch = primal.new_zeros(len(x_primal)) if num_graphs == 1 else data["primal"].batch
    once = primal[:, primal[0] < primal[1]]
    once = once[:, torch.argsort(once[0] * len(x_primal) + once[1])]
    graph = PrimalDualGraph.from_adjacency(once.T.contiguous(), kind, batch, num_graphs)
    restored = (
        (graph.primal.edge_index, primal),
        (graph.dual_edges.edge_index, data["dual", "adjacent", "dual"].edge_index),
        (graph.edge_to_dual, data["primal", "crosses", "dual"].edge_index[1]),
    )
    if not all(torch.equal(mine, given) for mine, given in restored):
        raise ValueError(f"the edges are not those of a PrimalDualGraph with {kind}: {data}")
    graph = graph.with_features(x_primal, data["dual"].x)
    return replace(graph, features=_common("feature_set", data.feature_set))


def _num_graphs(data: Any) -> int:
    """Return the number of graphs of one graph, a union, or a batch of single graphs."""
    graphs = torch.as_tensor(data.graphs).reshape(-1)
    if len(graphs) > 1 and bool((graphs != 1).any()):
        raise ValueError(f"a Batch must be of single graphs, got numbers {graphs.tolist()}")
    return int(graphs.sum())


def _common(name: str, values: str | list[str]) -> Any:
    """Return the value that all graphs of a batch share."""
    several = {values} if isinstance(values, str) else set(values)
    if len(several) != 1:
        raise ValueError(f"graphs of one batch must have one {name}, got {sorted(several)}")
    return several.pop()
