"""Polygons to triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.ranges import ranges


def fan_triangles(
    corners: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut each polygon into triangles around its first corner.

    Parameters
    ----------
    corners : ndarray, (sum of sizes,), int64
        Vertex indices of all polygons in a row.
    sizes : ndarray, (polygons,), int64
        Number of corners of each; those with fewer than three give no triangle.

    Returns
    -------
    triangles : ndarray, (triangles, 3), int64
        In the order of the polygons, with their winding.
    polygon : ndarray, (triangles,), int64
        Which polygon each comes from.

    Examples
    --------
    >>> fan_triangles(np.array([7, 8, 9, 5]), np.array([4]))[0].tolist()
    [[7, 8, 9], [7, 9, 5]]
    """
    counts = np.maximum(sizes - 2, 0)
    polygon = np.repeat(np.arange(len(sizes)), counts)
    first = np.cumsum(sizes) - sizes
    second = ranges(first + 1, counts)
    triangles = np.stack([corners[first[polygon]], corners[second], corners[second + 1]], axis=1)
    return triangles.reshape(-1, 3), polygon
