"""Distances in graphs, and embeddings of surfaces by geodesic distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_indices, as_tensor, check_shape, is_integer
from equigeo.mds.landmarks import (
    DistanceEmbedding,
    farthest_landmarks,
    landmark_embed,
    real_numbers,
)

_MOST_NODES = 2**16  # all distances between so many take 32 GiB
KINDS = ("shortest", "resistance")
SWEEPS = 4
FromVertex = Callable[[int], np.ndarray]


def graph_distances(
    edge_index: TensorLike,
    lengths: TensorLike | None = None,
    *,
    num_nodes: int | None = None,
    kind: str = "shortest",
) -> Tensor:
    """Return distances (nodes, nodes), float64, in a connected graph, for :func:`distance_embed`.

    Parameters
    ----------
    edge_index : Tensor, (2, edges), int64, or ndarray, integer
        Undirected edges. If each is listed with its reverse of the same length, a pair counts as
        one edge. Paths use the shortest of parallel edges; all of them conduct.
    lengths : Tensor, (edges,), optional
        Positive lengths or resistances; 1 by default.
    num_nodes : int, optional
        By default one more than the largest index.
    kind : {"shortest", "resistance"}
        Lengths of shortest paths, or square roots of effective resistances (Klein and Randic,
        "Resistance distance", 1993), which are Euclidean: their Gram matrix is the pseudo-inverse
        of the Laplacian.

    Examples
    --------
    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> graph_distances(path)[0].tolist()
    [0.0, 1.0, 2.0]
    """
    index = as_indices(edge_index, "edge_index")
    check_shape(index, "edge_index", (2, "edges"))
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    source, target = index.cpu().numpy()
    largest = int(index.max()) + 1 if index.shape[1] else 0
    nodes = largest if num_nodes is None else num_nodes
    if not 0 <= nodes <= _MOST_NODES:
        raise ValueError(f"the number of nodes must be from 0 to {_MOST_NODES}, got {nodes}")
    if largest > nodes or (index.shape[1] and int(index.min()) < 0):
        raise ValueError(f"edge_index must be from 0 to {nodes - 1}")
    length = np.ones(len(source))
    if lengths is not None:
        length = real_numbers(lengths, "lengths").cpu().numpy()
    if length.shape != source.shape or not (np.isfinite(length) & (length > 0)).all():
        raise ValueError(f"lengths must be ({len(source)},), finite and positive")
    if kind == "shortest":
        edges = shortest_edges(source, target, length, nodes)
        found = scipy.sparse.csgraph.shortest_path(edges, directed=False)
    else:
        found = _roots(source, target, length, nodes)
    if not np.isfinite(found).all():
        raise ValueError(
            "the graph is not connected: embed its components one by one, "
            f"nodes {np.flatnonzero(~np.isfinite(found[0]))[:5].tolist()} are not reached from 0"
        )
    return torch.from_numpy(found).to(index.device)


def shortest_edges(
    source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int
) -> scipy.sparse.csr_matrix:
    """Return a matrix with the shortest of parallel edges, for undirected paths."""
    # A sparse matrix would add parallel edges up.
    low, high = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((length, high, low))
    low, high, length = low[order], high[order], length[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    first &= low != high
    return scipy.sparse.csr_matrix((length[first], (low[first], high[first])), (nodes, nodes))


def _roots(source: np.ndarray, target: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    conductance = 1 / length
    there, back = np.stack([source, target, length]), np.stack([target, source, length])
    if np.array_equal(there[:, np.lexsort(there)], back[:, np.lexsort(back)]):
        conductance = conductance / 2  # of an edge that is listed twice
    matrix = scipy.sparse.coo_matrix((conductance, (source, target)), (nodes, nodes)).tocsr()
    matrix = matrix + matrix.T
    matrix.setdiag(0)
    components, labels = scipy.sparse.csgraph.connected_components(matrix, directed=False)
    if components > 1:
        return np.where(labels[:, None] == labels, 0.0, np.inf)
    inverse = np.linalg.pinv(scipy.sparse.csgraph.laplacian(matrix).toarray(), hermitian=True)
    diagonal = np.diag(inverse)
    resistance = diagonal[:, None] + diagonal - inverse - inverse.T
    np.fill_diagonal(resistance, 0)
    return np.sqrt(np.maximum(resistance, 0))


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

    Invariant under isometries of space and of the surface. The signs of shapes with intrinsic
    symmetries depend on rounding: see ``margin``. References: Elad and Kimmel, "On bending
    invariant signatures for surfaces", 2003; de Silva and Tenenbaum, "Sparse multidimensional
    scaling using landmark points", 2004.

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


def geodesic_errors(
    vertices: TensorLike,
    faces: TensorLike,
    found: TensorLike,
    truth: TensorLike,
    *,
    distances: Callable[[np.ndarray, np.ndarray], FromVertex] | None = None,
) -> Tensor:
    """Return geodesic errors of a map to vertices of a surface, over the root of its area.

    The share of points with an error below a threshold, for all thresholds, is the error curve of
    Kim et al., "Blended intrinsic maps", 2011.

    Parameters
    ----------
    vertices, faces, distances
        Of the surface that points are mapped to, see :func:`geodesic_embed`. The default distances
        make errors a few percent too large.
    found : Tensor or ndarray, (points,), integer
        Vertices that points are mapped to.
    truth : Tensor or ndarray, (points,) or (points, alternatives), integer
        Right vertices. The nearest of the alternatives counts, such as the left and the right one
        of a symmetric shape.

    Returns
    -------
    Tensor, (points,), float64
        Infinite where no path leads to a right vertex.

    Raises
    ------
    ValueError
        If shapes or indices do not fit, or the surface has no area.

    Examples
    --------
    >>> square = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]])
    >>> faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    >>> geodesic_errors(square, faces, torch.arange(4), torch.tensor([0, 0, 1, 3])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    points, triangles = _checked(vertices, faces)
    mapped, given = as_indices(found, "found").cpu(), as_indices(truth, "truth").cpu()
    check_shape(mapped, "found", ("points",))
    right = given[:, None] if given.ndim == 1 else given
    if right.ndim != 2 or len(right) != len(mapped) or not right.shape[1]:
        raise ValueError(
            f"truth must be ({len(mapped)},) or ({len(mapped)}, alternatives), "
            f"got {tuple(given.shape)}"
        )
    for name, index in (("found", mapped), ("truth", right)):
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(points):
            raise ValueError(f"{name} must hold vertices from 0 to {len(points) - 1}")
    a, b, c = points[triangles].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    if not area > 0:
        raise ValueError("the surface must have an area, its faces are lines or points")
    from_vertex = (distances or edge_distances)(points, triangles)
    errors = right.new_empty(right.shape, dtype=torch.float64)
    for vertex in mapped.unique():
        here = mapped == vertex
        errors[here] = torch.from_numpy(from_vertex(int(vertex)))[right[here]]
    return errors.amin(1) / area**0.5


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
    return lambda vertex: scipy.sparse.csgraph.dijkstra(graph, directed=False, indices=vertex)


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
