"""Closest points of triangles.

On its own because it is geometry, and tested as such.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

_NEARBY = 24  # by their centres: the nearest is among them unless it is 5 times larger


def closest_on_triangles(points: Array, corners: Array) -> tuple[Array, Array]:
    """Find the point of each triangle that is closest to a given one.

    The projection onto the plane where that falls into the triangle, and the closest of the three
    closest points on its sides elsewhere.

    Parameters
    ----------
    points : array, (..., 3), float64
        Given points.
    corners : array, (..., 3, 3), float64
        Corners of one triangle for each, of positive area; leading axes broadcast.

    Returns
    -------
    weights : array, (..., 3), float64
        Barycentric coordinates of the closest points: not negative, their sum is one.
    distances : array, (...,), float64
        From the given points.

    References
    ----------
    Ericson, "Real-Time Collision Detection", 2005, section 5.1.5.

    Examples
    --------
    >>> triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> closest_on_triangles(np.array([0.5, -2.0, 0.0]), triangle)
    (array([0.5, 0.5, 0. ]), array(2.))
    """
    points, _ = np.broadcast_arrays(points, corners[..., 0, :])
    inside = _plane_weights(points, corners)
    sides = [_side_weights(points, corners, k) for k in range(3)]
    candidates = np.stack([inside, *sides], axis=-2)
    found = np.einsum("...kc,...ci->...ki", candidates, corners)
    distances = np.linalg.norm(found - points[..., None, :], axis=-1)
    distances[..., 0][(inside < 0).any(axis=-1)] = np.inf
    best = distances.argmin(axis=-1)[..., None]
    weights = np.take_along_axis(candidates, best[..., None], axis=-2)[..., 0, :]
    return weights, np.take_along_axis(distances, best, axis=-1)[..., 0]


def nearest_triangles(points: Array, corners: Array) -> tuple[NDArray[np.int64], Array]:
    """Find the triangle next to each point, and the closest of its points.

    Parameters
    ----------
    points : array, (points, 3), float64
        Given points.
    corners : array, (triangles, 3, 3), float64
        Corners of at least one triangle; all of positive area.

    Returns
    -------
    triangles : array, (points,), int64
        Numbers of triangles. Of those whose centres are nearest, 24: the nearest triangle is among
        them unless it is much larger than its neighbours.
    weights : array, (points, 3), float64
        Barycentric coordinates there.

    Examples
    --------
    >>> triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> nearest_triangles(np.array([[5.0, 5.0, 0.0]]), np.stack([triangle, triangle + 4]))[0]
    array([1])
    """
    count = min(_NEARBY, len(corners))
    nearby = cKDTree(corners.mean(axis=1)).query(points, k=count)[1].reshape(-1, count)
    weights, distances = closest_on_triangles(points[:, None], corners[nearby])
    rows, best = np.arange(len(points)), distances.argmin(axis=1)
    return nearby[rows, best], weights[rows, best]


def _plane_weights(points: Array, corners: Array) -> Array:
    """Barycentric coordinates of the projection onto the plane, of any sign."""
    one, two = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    offset = points - corners[..., 0, :]
    normal = np.cross(one, two)
    square = np.sum(normal * normal, axis=-1)
    second = np.sum(np.cross(offset, two) * normal, axis=-1) / square
    third = np.sum(np.cross(one, offset) * normal, axis=-1) / square
    return np.stack([1 - second - third, second, third], axis=-1)


def _side_weights(points: Array, corners: Array, side: int) -> Array:
    """Barycentric coordinates of the closest point of the side that begins at a corner."""
    start, end = corners[..., side, :], corners[..., (side + 1) % 3, :]
    span = end - start
    along = np.sum((points - start) * span, axis=-1) / np.sum(span * span, axis=-1)
    along = np.clip(along, 0.0, 1.0)
    weights = np.zeros((*along.shape, 3))
    weights[..., side], weights[..., (side + 1) % 3] = 1 - along, along
    return weights
