"""Conversion of graphs and meshes from and to PyTorch Geometric."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex
from equigeo.interop.optional import require_pyg
from equigeo.mesh import DualKind, PrimalDualGraph, TriangleMesh


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


def triangle_mesh(data: Any) -> TriangleMesh:
    """Convert a mesh of PyTorch Geometric with ``pos`` (vertices, 3) and ``face`` (3, faces).

    A ``Batch`` becomes one mesh; to separate its meshes, convert each of ``batch.to_data_list()``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import torch
    >>> data = SimpleNamespace(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
    >>> triangle_mesh(data).num_faces
    1
    """
    pos, face = (getattr(data, name, None) for name in ("pos", "face"))
    if not isinstance(pos, Tensor) or not isinstance(face, Tensor):
        raise TypeError(f"expected Data with pos and face, got {type(data).__name__}: {data}")
    if face.ndim != 2 or face.shape[0] != 3:
        raise ValueError(f"face must be (3, faces), got {tuple(face.shape)}")
    return TriangleMesh(pos, face.T)


def triangle_meshes(batch: Any) -> list[TriangleMesh]:
    """Convert each mesh of a batch, or of an iterable of data."""
    items = batch.to_data_list() if hasattr(batch, "to_data_list") else batch
    return [triangle_mesh(data) for data in items]


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
    graphs = torch.as_tensor(data.graphs).reshape(-1)
    if len(graphs) > 1 and bool((graphs != 1).any()):
        raise ValueError(f"a Batch must be of single graphs, got numbers {graphs.tolist()}")
    num_graphs = int(graphs.sum())
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


def _common(name: str, values: str | list[str]) -> Any:
    """Return the value that all graphs of a batch share."""
    several = {values} if isinstance(values, str) else set(values)
    if len(several) != 1:
        raise ValueError(f"graphs of one batch must have one {name}, got {sorted(several)}")
    return several.pop()


def edge_index(source: Any, *, size: tuple[int, int] | None = None) -> EdgeIndex:
    """Convert and sort the edges of a graph of PyTorch Geometric, sources in row 0.

    Parameters
    ----------
    source : Tensor, torch_geometric.EdgeIndex, Data, Batch, or one edge type of HeteroData
        Edges (2, edges), int64, or an object with ``edge_index``.
    size : (int, int), optional
        Number of sources and targets; by default the sizes that ``source`` has, else one more than
        the largest index.

    Examples
    --------
    >>> import torch
    >>> edge_index(torch.tensor([[0, 1, 2], [1, 0, 1]]), size=(3, 3)).ptr.tolist()
    [0, 1, 3, 3]
    """
    edges = source if isinstance(source, Tensor) else getattr(source, "edge_index", None)
    if not isinstance(edges, Tensor):
        raise TypeError(
            f"expected edges (2, edges), or an object with edge_index, got {type(source).__name__}"
        )
    known: tuple[int | None, int | None] = (None, None)
    if size is not None:
        known = size
    elif source is not edges:
        known = source.size()
    elif hasattr(edges, "sparse_size"):
        known = edges.sparse_size()
    # torch_geometric.EdgeIndex is a tensor that checks itself at every step.
    plain = edges.as_tensor() if hasattr(edges, "as_tensor") else edges
    return EdgeIndex.from_edges(plain, *known)


def to_edge_index(edges: EdgeIndex) -> Any:
    """Convert edges to a ``torch_geometric.EdgeIndex`` with sizes and sort order, as given.

    Examples
    --------
    >>> import torch
    >>> edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2], [1, 0, 1]]), 3, 3)
    >>> to_edge_index(edges).sparse_size()  # doctest: +SKIP
    (3, 3)
    """
    return require_pyg().EdgeIndex(
        edges.edge_index.contiguous(),
        sparse_size=(edges.num_sources, edges.num_targets),
        sort_order="col" if edges.is_sorted else None,
    )


def batch_to_ptr(batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """Convert ascending graph numbers of rows to offsets (num_graphs + 1,)."""
    _check("batch", batch)
    if len(batch) and (int(batch[0]) < 0 or not bool((batch[1:] >= batch[:-1]).all())):
        raise ValueError("batch must ascend from 0 or more: the rows of a graph are consecutive")
    last = int(batch[-1]) + 1 if len(batch) else 0
    graphs = last if num_graphs is None else num_graphs
    if last > graphs:
        raise ValueError(f"batch must lie in [0, {graphs}), got {last - 1}")
    ptr = batch.new_zeros(graphs + 1)
    ptr[1:] = torch.cumsum(torch.bincount(batch, minlength=graphs), dim=0)
    return ptr


def ptr_to_batch(ptr: Tensor) -> Tensor:
    """Convert ascending offsets from 0 to graph numbers of rows."""
    _check("ptr", ptr)
    if len(ptr) == 0 or int(ptr[0]) != 0 or not bool((ptr.diff() >= 0).all()):
        raise ValueError("ptr must be offsets that start at 0 and ascend")
    return torch.repeat_interleave(ptr.diff())


def _check(name: str, values: Tensor) -> None:
    if values.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {values.dtype}")
    if values.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {tuple(values.shape)}")
