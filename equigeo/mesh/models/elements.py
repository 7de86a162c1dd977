"""Average of face features over faces, edges, vertices or meshes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.primal_dual_graph import PrimalDualGraph
from equigeo.mesh.geometry.surface import Surface
from equigeo.mesh.models.readout import group_mean

Elements = Literal["faces", "edges", "vertices", "mesh"]


def face_to_element_means(
    graph: PrimalDualGraph,
    x: Tensor,  # (faces, channels)
    elements: Elements,
    *,
    area_weighted: bool = False,  # whether faces are weighted by area
) -> Tensor:
    """Average face features at each face, edge, vertex or mesh, (elements, channels)."""
    if elements == "faces":
        return x
    if elements == "mesh":
        face, group, size = None, graph.primal_batch, graph.num_graphs
    else:
        if graph.surface is None:
            raise ValueError(f"a graph of adjacencies alone has no {elements} for outputs")
        # Edges are in the order of `edge_faces`; a vertex without faces gets zero.
        find = _faces_at_edges if elements == "edges" else _faces_at_vertices
        face, group, size = find(graph.surface)
    weight = None
    if area_weighted:
        if graph.shares is None:
            raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
        weight = graph.shares.primal if face is None else graph.shares.primal[face]
    return group_mean(x if face is None else x.index_select(0, face), group, size, weight)


def adjacency_means(graph: PrimalDualGraph) -> Tensor:
    """Average the features of the adjacencies of each face, (primal nodes, dual channels)."""
    x = graph.x_dual
    if graph.dual is not DualKind.SINGLE:
        x = x.unflatten(0, (-1, 2)).mean(dim=1)
    total = x.new_zeros(graph.num_primal, x.shape[1])
    for end in graph.undirected.unbind(1):  # not at once, which would copy the features
        total = total.index_add(0, end, x)
    number = torch.bincount(graph.undirected.reshape(-1), minlength=graph.num_primal)
    return total / number.clamp_min(1)[:, None].to(x.dtype)


def _faces_at_vertices(surface: Surface) -> tuple[Tensor, Tensor, int]:
    vertex = surface.faces.reshape(-1)
    return torch.arange(len(vertex), device=vertex.device) // 3, vertex, len(surface.vertices)


def _faces_at_edges(surface: Surface) -> tuple[Tensor, Tensor, int]:
    faces = edge_faces(surface)
    edge = torch.arange(len(faces), device=faces.device)
    # A boundary edge has its face twice, which does not change the mean.
    return faces.reshape(-1), edge.repeat_interleave(2), len(faces)


def edge_faces(surface: Surface) -> Tensor:
    """Return the two faces of each edge (edges, 2), the same face twice at a boundary."""
    half_edge = torch.arange(3 * len(surface.faces), device=surface.faces.device)
    twin = half_edge.clone()
    twin[surface.pairs[:, 0]] = surface.pairs[:, 1]
    # The other side of a pair is no edge of its own.
    first = torch.ones_like(half_edge, dtype=torch.bool)
    first[surface.pairs[:, 1]] = False
    one = half_edge[first]
    start, end = surface.faces.reshape(-1), surface.faces.roll(-1, dims=1).reshape(-1)
    lower, higher = torch.minimum(start, end)[one], torch.maximum(start, end)[one]
    faces = torch.stack((one, twin[one]), dim=1) // 3
    # Edges are sorted by lower and higher vertex as rows of trimesh's `edges_unique`, equal edges
    # by their lowest face.
    # Stable sorts from the last key to the first.
    order = torch.argsort(faces[:, 0], stable=True)
    for key in (higher, lower):
        order = order[torch.argsort(key[order], stable=True)]
    return faces[order]
