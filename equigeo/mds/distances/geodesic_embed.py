"""Embeddings of surfaces by geodesic distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csgraph
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor, is_integer
from equigeo.mds.distances.distance_embedding import DistanceEmbedding
from equigeo.mds.distances.farthest_landmarks import farthest_landmarks
from equigeo.mds.distances.gram import real_numbers
from equigeo.mds.distances.graph_distances import shortest_edges
from equigeo.mds.distances.landmark_embed import landmark_embed

FromVertex = Callable[[int], np.ndarray]
SWEEPS = 4


def geodesic_embed(
    vertices: TensorLike,
    faces: TensorLike,
    *,
    dim: int = 3,
    landmarks: int = 100,
    correction: str = "clip",
    distances: Callable[[np.ndarray, np.ndarray], FromVertex] | None = None,
) -> DistanceEmbedding:
    """Embed a connected surface by geodesic distances: its canonical form.

    Geodesic distances of curved surfaces are not Euclidean: see ``stress``.

    Parameters
    ----------
    vertices : Tensor or ndarray, (vertices, 3), real
        In any units; treated as constant.
    faces : Tensor or ndarray, (faces, 3), integer
        Triangles.
    dim : int
        Number of coordinates, usually 3 to 8.
    landmarks : int
        Number of vertices with known distances, each farthest from the previous ones. The first is
        an end of a longest path, found by four steps to the farthest vertex, usually independent of
        the first vertex.
    correction : str
        See :func:`distance_embed`.
    distances : callable, optional
        Maps vertices (V, 3) and faces (F, 3) to a function from a vertex to its distances to all,
        (V,). By default lengths of paths along edges and straight across pairs of triangles, a few
        percent longer than geodesics at any resolution. The heat method of potpourri3d is closer::

            def heat_distances(vertices, faces):
                solver = potpourri3d.MeshHeatMethodDistanceSolver(vertices, faces)
                return lambda vertex: numpy.maximum(solver.compute_distance(vertex), 0)

    Equivariance
    ------------
    Invariant under isometries of space and of the surface. The signs of shapes with intrinsic
    symmetries depend on rounding: see ``margin``.

    References
    ----------
    Elad and Kimmel, "On bending invariant signatures for surfaces", 2003; de Silva and Tenenbaum,
    "Sparse multidimensional scaling using landmark points", 2004.

    Examples
    --------
    >>> flat = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    >>> square = geodesic_embed(flat, torch.tensor([[0, 1, 2], [0, 2, 3]]), dim=2)
    >>> round(float(square.stress), 6)
    0.0
    """
    points, triangles = _checked(vertices, faces)
    from_vertex = (distances or edge_distances)(points, triangles)

    def measure(vertex: int) -> Tensor:
        return torch.from_numpy(np.array(from_vertex(vertex), dtype=np.float64))

    start = 0
    for _ in range(SWEEPS):
        start = int(measure(start).argmax())
    chosen, rows = farthest_landmarks(measure, landmarks, start=start)
    if not bool(rows.isfinite().all()):
        raise ValueError(
            "the surface is not connected: embed its components one by one, "
            f"{int((~rows[0].isfinite()).sum())} vertices are not reached from vertex {start}"
        )
    between = rows[:, chosen]
    # Numerical geodesics are not quite symmetric.
    between = (between + between.mT) / 2
    between.fill_diagonal_(0)
    return landmark_embed(between, rows.mT, dim, correction=correction, landmarks=chosen)


def edge_distances(
    vertices: np.ndarray,  # (V, 3)
    faces: np.ndarray,  # (F, 3)
) -> FromVertex:
    """Return a function from a vertex to path lengths along edges and across triangle pairs."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    opposite = np.concatenate([faces[:, 2], faces[:, 0], faces[:, 1]])
    sides = np.sort(sides, axis=1)
    order = np.lexsort((sides[:, 1], sides[:, 0]))
    sides, opposite = sides[order], opposite[order]
    again = (sides[1:] == sides[:-1]).all(1)
    first = np.concatenate([[True], ~again])
    ends, lengths = _across(vertices, sides[1:][again], opposite[:-1][again], opposite[1:][again])
    pairs = np.concatenate([sides[first], ends])
    straight = np.linalg.norm(vertices[sides[first, 0]] - vertices[sides[first, 1]], axis=1)
    # A length of zero would be no edge.
    weights = np.maximum(np.concatenate([straight, lengths]), np.finfo(np.float64).tiny)
    graph = shortest_edges(pairs[:, 0], pairs[:, 1], weights, len(vertices))
    return lambda vertex: csgraph.dijkstra(graph, directed=False, indices=vertex)


def _across(
    vertices: np.ndarray, sides: np.ndarray, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return vertex pairs on both sides of an edge with a straight line across it, and lengths."""
    a, b = vertices[sides[:, 0]], vertices[sides[:, 1]]
    axis = b - a
    length = np.linalg.norm(axis, axis=1)
    axis = axis / np.where(length > 0, length, 1)[:, None]
    along, away = [], []
    for corner in (vertices[left] - a, vertices[right] - a):
        t = (corner * axis).sum(1)
        along.append(t)
        away.append(np.linalg.norm(corner - t[:, None] * axis, axis=1))
    total = away[0] + away[1]
    crossing = along[0] + (along[1] - along[0]) * away[0] / np.where(total > 0, total, 1)
    inside = (total > 0) & (crossing >= 0) & (crossing <= length)
    return np.stack([left, right], 1)[inside], np.hypot(along[1] - along[0], total)[inside]


def _checked(positions: TensorLike, triangles: TensorLike) -> tuple[np.ndarray, np.ndarray]:
    vertices, faces = real_numbers(positions, "vertices"), as_tensor(triangles, "faces")
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not len(vertices):
        raise ValueError(f"vertices must be (vertices, 3), got {tuple(vertices.shape)}")
    if faces.ndim != 2 or faces.shape[1] != 3 or not is_integer(faces) or not len(faces):
        raise ValueError(
            f"faces must be (faces, 3) and integer, got {tuple(faces.shape)} of {faces.dtype}"
        )
    if int(faces.min()) < 0 or int(faces.max()) >= len(vertices):
        raise ValueError(f"faces must hold vertices from 0 to {len(vertices) - 1}")
    points = vertices.cpu()
    if not bool(points.isfinite().all()):
        raise ValueError("vertices must be finite")
    return points.numpy(), faces.detach().cpu().long().numpy()
