"""Triangles that occur twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def duplicate_faces(faces: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find triangles on the same three vertices as an earlier one, wound either way.

    Parameters
    ----------
    faces : ndarray, (faces, 3), int64
        Vertex indices.

    Returns
    -------
    ndarray, (faces,), bool
        True from the second occurrence on.

    Examples
    --------
    >>> duplicate_faces(np.array([[0, 1, 2], [3, 4, 5], [2, 1, 0]]))
    array([False, False,  True])
    """
    low, middle, high = np.sort(faces, axis=1).T
    order = np.lexsort((high, middle, low))  # stable: the first occurrence comes first
    same = [np.diff(column[order]) == 0 for column in (low, middle, high)]
    duplicate = np.zeros(len(faces), bool)
    duplicate[order[1:]] = same[0] & same[1] & same[2]
    return duplicate
