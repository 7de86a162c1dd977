"""Positions in a unit in which tolerances mean the same for every file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unit_points(vertices: NDArray[np.float64], corners: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scale and move so that the box around the vertices in use has a diagonal of length 1.

    Parameters
    ----------
    vertices : ndarray, (vertices, 3), float64
        Positions; those in use must be finite, of any magnitude.
    corners : ndarray, integer
        Vertices in use, any shape.

    Returns
    -------
    ndarray, (vertices, 3), float64
        Moved positions; zero where all vertices in use coincide.

    Examples
    --------
    >>> points = unit_points(np.array([[0.0, 0, 0], [3e300, 4e300, 0]]), np.array([0, 1]))
    >>> points[1] - points[0]
    array([0.6, 0.8, 0. ])
    """
    with np.errstate(all="ignore"):  # vertices out of use may be NaN, infinite or far away
        is_used = np.zeros(len(vertices), bool)
        is_used[corners] = True
        used = vertices[is_used]
        largest = np.abs(used).max(initial=0.0)
        scaled, used = vertices / (largest or 1.0), used / (largest or 1.0)
        low, high = used.min(axis=0), used.max(axis=0)
        diagonal = float(np.linalg.norm(high - low))
        if diagonal == 0.0:
            return np.zeros_like(vertices)
        return (scaled - (low + high) / 2) / diagonal
