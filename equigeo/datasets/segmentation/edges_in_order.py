"""The order in which files list the edges of a mesh."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor


class OrderedEdges(NamedTuple):
    """Edges in the order of their first appearance."""

    vertices: Tensor
    of_faces: Tensor


def edges_in_order(faces: TensorLike) -> OrderedEdges:
    """Number the edges of triangles as MeshCNN does.

    Faces are scanned in order and, within a face, the edges between corners 0 and 1, 1 and 2, 2 and
    0; each edge is numbered at its first appearance. Lines of ``.eseg`` and ``.seseg`` files have
    this order.

    Parameters
    ----------
    faces : Tensor or ndarray, (faces, 3), integer

    Returns
    -------
    vertices : Tensor, (edges, 2), int64
        Ends of each edge, the smaller index first.
    of_faces : Tensor, (faces, 3), int64
        Edges of each face.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the order of its label files).

    Examples
    --------
    >>> edges = edges_in_order(torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> edges.vertices.tolist(), edges.of_faces.tolist()
    ([[0, 1], [1, 2], [0, 2], [0, 3], [1, 3]], [[0, 1, 2], [3, 4, 0]])
    """
    rows = as_tensor(faces, "faces")
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.is_floating_point() or rows.is_complex():
        raise ValueError(f"faces must be integer (faces, 3), got {rows.dtype} {tuple(rows.shape)}")
    rows = rows.to(torch.int64)
    if len(rows) and int(rows.min()) < 0:
        raise ValueError(f"faces must hold vertex indices, got {int(rows.min())}")
    ends = torch.stack((rows, rows.roll(-1, dims=1)), dim=-1).reshape(-1, 2).sort(dim=1).values
    low, high = ends.unbind(1)
    # Vertices are renumbered below the number of corners, so that the product of two fits.
    used, compact = torch.stack((low, high)).unique(return_inverse=True)
    keys, inverse = (compact[0] * len(used) + compact[1]).unique(return_inverse=True)
    positions = torch.arange(len(ends), device=rows.device)
    first = positions.new_full((len(keys),), len(ends))
    first = first.scatter_reduce(0, inverse, positions, "amin")
    first, order = first.sort()
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=rows.device)
    return OrderedEdges(ends[first], number[inverse].reshape(-1, 3))
