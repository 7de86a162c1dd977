"""From features of faces to those of the elements that outputs are wanted at."""

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
    graph: PrimalDualGraph, x: Tensor, elements: Elements, *, area_weighted: bool = False
) -> Tensor:
    """Average the features of the faces at every element.

    Parameters
    ----------
    graph : PrimalDualGraph
        Not pooled. Edges and vertices need the surface that it was measured on.
    x : Tensor, (faces, channels)
        Features of faces.
    elements : {"faces", "edges", "vertices", "mesh"}
        Faces keep their features. An edge has those of its one or two faces, in the order of
        :func:`edge_faces`; a vertex those of the faces around it, or zero without any; a mesh those
        of all.
    area_weighted : bool
        Whether faces count by their areas.

    Returns
    -------
    Tensor, (elements, channels)
        In the order of the faces, edges, vertices or meshes.

    Raises
    ------
    ValueError
        If the graph has no surface, or no areas to weigh with.

    Equivariance
    ------------
    Permuting faces or vertices permutes results.

    Examples
    --------
    >>> from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> x = torch.tensor([[2.0], [4.0]])
    >>> face_to_element_means(PrimalDualGraph.from_mesh(mesh), x, "vertices").T
    tensor([[3., 3., 2., 4.]])
    >>> face_to_element_means(PrimalDualGraph.from_mesh(mesh), x, "edges").T
    tensor([[3., 2., 4., 2., 4.]])
    """
    if elements == "faces":
        return x
    if elements == "mesh":
        face, group, size = None, graph.primal_batch, graph.num_graphs
    else:
        if graph.surface is None:
            raise ValueError(f"a graph of adjacencies alone has no {elements} for outputs")
        find = _faces_at_edges if elements == "edges" else _faces_at_vertices
        face, group, size = find(graph.surface)
    weight = None
    if area_weighted:
        if graph.shares is None:
            raise ValueError("a graph of adjacencies alone has no areas to weigh its features by")
        weight = graph.shares.primal if face is None else graph.shares.primal[face]
    return group_mean(x if face is None else x.index_select(0, face), group, size, weight)


def adjacency_means(graph: PrimalDualGraph) -> Tensor:
    """Average over each face the features of its adjacencies, of both directions alike.

    Parameters
    ----------
    graph : PrimalDualGraph
        With features.

    Returns
    -------
    Tensor, (primal nodes, dual channels)
        Zero for a face without neighbours.

    Equivariance
    ------------
    Permuting faces permutes results.

    Examples
    --------
    >>> graph = PrimalDualGraph.from_adjacency(
    ...     torch.tensor([[0, 1], [1, 2]]), DualKind.SINGLE, torch.zeros(3, dtype=torch.int64), 1
    ... ).with_features(torch.zeros(3, 1), torch.tensor([[2.0], [4.0]]))
    >>> adjacency_means(graph).T
    tensor([[2., 3., 4.]])
    """
    x = graph.x_dual
    if graph.dual is not DualKind.SINGLE:
        x = x.unflatten(0, (-1, 2)).mean(dim=1)
    total = x.new_zeros(graph.num_primal, x.shape[1])
    for end in graph.undirected.unbind(1):  # not at once, which would copy the features
        total = total.index_add(0, end, x)
    number = torch.bincount(graph.undirected.reshape(-1), minlength=graph.num_primal)
    return total / number.clamp_min(1)[:, None].to(x.dtype)


def _faces_at_vertices(surface: Surface) -> tuple[Tensor, Tensor, int]:
    """Face and vertex of every corner, and the number of vertices."""
    vertex = surface.faces.reshape(-1)
    return torch.arange(len(vertex), device=vertex.device) // 3, vertex, len(surface.vertices)


def _faces_at_edges(surface: Surface) -> tuple[Tensor, Tensor, int]:
    """Face and edge of every half-edge that has one of its own, and the number of edges."""
    faces = edge_faces(surface)
    edge = torch.arange(len(faces), device=faces.device)
    # A boundary edge has one face twice, whose mean is that of once.
    return faces.reshape(-1), edge.repeat_interleave(2), len(faces)


def edge_faces(surface: Surface) -> Tensor:
    """Find the two faces of every edge of a surface, or twice the one of a boundary edge.

    Parameters
    ----------
    surface : Surface
        One mesh or a batch.

    Returns
    -------
    Tensor, (edges, 2), int64
        Edges by their lower and then by their higher vertex, as rows of ``edges_unique`` that are
        sorted; of several edges between the same two vertices first that of the lowest face.

    Examples
    --------
    >>> from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> edge_faces(Surface.from_mesh(mesh)).tolist()
    [[0, 1], [0, 0], [1, 1], [0, 0], [1, 1]]
    """
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
    # Stable sorts from the last key to the first.
    order = torch.argsort(faces[:, 0], stable=True)
    for key in (higher, lower):
        order = order[torch.argsort(key[order], stable=True)]
    return faces[order]
