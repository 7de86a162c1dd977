"""Validation of generated surfaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components


def surface_defect(
    vertices: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3)
    genus: int,  # expected number of handles
) -> str | None:
    """Return the first defect of a surface meant to be closed, connected and outward, or None."""
    if not np.isfinite(vertices).all():
        return "a position is not finite"
    number = len(vertices)
    start = faces.reshape(-1)
    end = np.roll(faces, -1, axis=1).reshape(-1)
    keys = np.sort(start * number + end)
    if (start == end).any() or (np.diff(keys) == 0).any():
        return "a face is degenerate or an edge has two faces on one side"
    # Closed and oriented: every directed edge occurs once, and so does its reverse.
    if not np.array_equal(keys, np.sort(end * number + start)):
        return "an edge does not have one face on each side"
    graph = sparse.coo_matrix((np.ones(len(start)), (start, end)), (number, number))
    if connected_components(graph, directed=False)[0] != 1:
        return "it has several components or unused vertices"
    characteristic = number - len(keys) // 2 + len(faces)
    if characteristic != 2 - 2 * genus:
        return f"its Euler characteristic is {characteristic}, not {2 - 2 * genus}"
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    if not (np.linalg.norm(normals, axis=1) > 0).all():
        return "a face has no area"
    # The sum over faces of corner . normal is six times the enclosed volume, by Gauss's theorem.
    if np.sum(normals * corners[:, 0]) <= 0:
        return "its enclosed volume is not positive"
    return None
