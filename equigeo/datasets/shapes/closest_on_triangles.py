"""Closest points of triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

_NEARBY = 24  # by their centres: the nearest is among them unless it is 5 times larger


def closest_on_triangles(
    points: Array,  # (..., 3)
    corners: Array,  # (..., 3, 3), positive area; leading axes broadcast
) -> tuple[Array, Array]:
    """Return barycentric coordinates and distance of the closest point on each triangle."""
    points, _ = np.broadcast_arrays(points, corners[..., 0, :])
    # The projection onto the plane if inside the triangle, else the closest point of a side:
    # Ericson, "Real-Time Collision Detection", 2005, section 5.1.5.
    inside = _plane_weights(points, corners)
    sides = [_side_weights(points, corners, k) for k in range(3)]
    candidates = np.stack([inside, *sides], axis=-2)
    found = np.einsum("...kc,...ci->...ki", candidates, corners)
    distances = np.linalg.norm(found - points[..., None, :], axis=-1)
    distances[..., 0][(inside < 0).any(axis=-1)] = np.inf
    best = distances.argmin(axis=-1)[..., None]
    weights = np.take_along_axis(candidates, best[..., None], axis=-2)[..., 0, :]
    return weights, np.take_along_axis(distances, best, axis=-1)[..., 0]


def nearest_triangles(
    points: Array,  # (points, 3)
    corners: Array,  # (triangles, 3, 3), positive area
) -> tuple[NDArray[np.int64], Array]:
    """Return the nearest triangle of each point and the barycentric coordinates there."""
    count = min(_NEARBY, len(corners))
    # Among 24 candidates with the nearest centres: exact unless a triangle is much larger than its
    # neighbors.
    nearby = cKDTree(corners.mean(axis=1)).query(points, k=count)[1].reshape(-1, count)
    weights, distances = closest_on_triangles(points[:, None], corners[nearby])
    rows, best = np.arange(len(points)), distances.argmin(axis=1)
    return nearby[rows, best], weights[rows, best]


def _plane_weights(points: Array, corners: Array) -> Array:
    """Return barycentric coordinates of the projection onto the plane, of any sign."""
    one, two = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    offset = points - corners[..., 0, :]
    normal = np.cross(one, two)
    square = np.sum(normal * normal, axis=-1)
    second = np.sum(np.cross(offset, two) * normal, axis=-1) / square
    third = np.sum(np.cross(one, offset) * normal, axis=-1) / square
    return np.stack([1 - second - third, second, third], axis=-1)


def _side_weights(points: Array, corners: Array, side: int) -> Array:
    """Return barycentric coordinates of the closest point on the side that starts at a corner."""
    start, end = corners[..., side, :], corners[..., (side + 1) % 3, :]
    span = end - start
    along = np.sum((points - start) * span, axis=-1) / np.sum(span * span, axis=-1)
    along = np.clip(along, 0.0, 1.0)
    weights = np.zeros((*along.shape, 3))
    weights[..., side], weights[..., (side + 1) % 3] = 1 - along, along
    return weights
