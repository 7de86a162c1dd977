"""Overlapping patches of the graphs of a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo.mesh.geometry.features import AreaShares
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph, check_graph


@dataclass(frozen=True, eq=False, repr=False)
class Patch:
    """Some nodes of a larger graph."""

    graph: PrimalDualGraph  # of the inner faces and those around them, without surface
    primal: Tensor  # indices of its nodes in the larger graph, ascending
    dual: Tensor
    inside: Tensor  # whether a node is inside; every node of the larger graph is inside one patch
    inside_dual: Tensor

    def __repr__(self) -> str:
        number = int(self.inside.sum())
        return f"Patch(inside={number}, around={len(self.inside) - number})"


def patches(graph: PrimalDualGraph, max_faces: int, rings: int) -> Iterator[Patch]:
    """Split graphs into patches, for inference on meshes whose features exceed the memory.

    Inside a patch, the results of convolutions and blocks equal those for the whole graph, up to
    rounding, if ``rings`` exceeds the number of convolutions by one. This does not hold for batch
    statistics in training, pooling and read-outs, which read whole meshes. Renumbering faces
    changes the patches, but no result inside.

    Parameters
    ----------
    graph : PrimalDualGraph
        One mesh or a batch, with features.
    max_faces : int
        Maximum number of faces inside a patch.
    rings : int
        Rings of faces around them.

    Yields
    ------
    Patch
        ``graph`` without surface; ``primal`` and ``dual``, the indices of its nodes in the given
        graph; masks ``inside`` and ``inside_dual``. Every node is inside one patch.

    Examples
    --------
    >>> import trimesh
    >>> from equigeo.mesh import TriangleMesh
    >>> shape = TriangleMesh.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    >>> parts = [*patches(PrimalDualGraph.from_mesh(shape), max_faces=100, rings=1)]
    >>> sum(int(part.inside.sum()) for part in parts) == shape.num_faces
    True
    """
    check_graph(graph)
    if max_faces < 1 or rings < 0:
        raise ValueError(
            f"max_faces must be positive and rings not negative, got {max_faces} and {rings}"
        )
    if not graph.num_primal:
        return
    order = _along_the_surface(graph)
    number = torch.full((graph.num_primal,), -1, device=order.device)
    for inside in order.split(max_faces):
        yield _patch(graph, inside, rings, number)


def _along_the_surface(graph: PrimalDualGraph) -> Tensor:
    """Order faces so that neighbors are close and patches have small halos."""
    edges, nodes = graph.primal, graph.num_primal
    source, ptr = edges.source.cpu().numpy(), edges.ptr.cpu().numpy()
    matrix = scipy.sparse.csr_matrix(
        (np.ones(len(source), np.int8), source, ptr), shape=(nodes, nodes)
    )
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    return torch.from_numpy(order.astype(np.int64)).to(edges.source.device)


def _patch(graph: PrimalDualGraph, inside: Tensor, rings: int, number: Tensor) -> Patch:
    """Extract some faces and their surroundings; ``number`` is -1 before and after."""
    faces = ring = inside
    number[inside] = 0
    for _ in range(rings):
        ring = torch.unique(graph.primal.source[_edges_at(graph, ring)])
        ring = ring[number[ring] < 0]
        number[ring] = 0
        faces = torch.cat((faces, ring))
    faces = faces.sort().values
    number[faces] = torch.arange(len(faces), device=faces.device)
    edges = _edges_at(graph, faces)
    both = number[graph.primal.source[edges]] >= 0
    adjacencies = torch.unique(graph.to_undirected[edges[both]])
    ends = number[graph.undirected[adjacencies]]
    number[faces] = -1
    is_inside = torch.isin(faces, inside)
    per_edge = graph.dual.nodes_per_edge
    dual = adjacencies[:, None] * per_edge + torch.arange(per_edge, device=faces.device)
    dual = dual.flatten()
    # A pair belongs to the patch that has its first face inside.
    is_inside_dual = is_inside[ends[:, 0]].repeat_interleave(per_edge)
    piece = PrimalDualGraph.from_adjacency(
        ends, graph.dual, graph.primal_batch[faces], graph.num_graphs, features=graph.features
    ).with_features(graph.x_primal[faces], graph.x_dual[dual])
    shares = graph.shares
    if shares is not None:
        shares = AreaShares(shares.primal[faces], shares.dual[dual])
    piece = replace(piece, shares=shares, sizes=graph.sizes, inputs=graph.inputs)
    return Patch(piece, faces, dual, is_inside, is_inside_dual)


def _edges_at(graph: PrimalDualGraph, faces: Tensor) -> Tensor:
    """Return the positions of the directed edges that arrive at the given faces."""
    begin, size = graph.primal.ptr[faces], graph.primal.ptr.diff()[faces]
    before = torch.cumsum(size, 0) - size
    total = int(size.sum())
    position = torch.arange(total, device=faces.device)
    return position + torch.repeat_interleave(begin - before, size, output_size=total)
