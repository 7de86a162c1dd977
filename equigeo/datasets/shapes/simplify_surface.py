"""Simplification of a closed surface to an exact number of faces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.remesh.collapse_edges import collapse_edges


def simplify_surface(
    vertices: NDArray[np.float64],
    faces: NDArray[np.int64],
    count: int,
    generator: np.random.Generator,
    edge_weight: float = 1e-2,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Collapse edges of a closed manifold surface until ``count`` faces are left.

    Parameters
    ----------
    vertices : array, (vertices, 3), float64
        Positions.
    faces : array, (faces, 3), int64
        Closed, manifold and consistently oriented; not checked.
    count : int
        Even, at most the present number.
    generator : numpy.random.Generator
        Source of randomness: another generator gives other connectivity.
    edge_weight : float
        As for ``collapse_edges``: the smaller, the more faces go to relief.

    Returns
    -------
    vertices : array, (kept, 3), float64
        Positions, all used.
    faces : array, (count, 3), int64
        Oriented as before.

    Raises
    ------
    ValueError
        If ``count`` cannot be reached: odd, too large, or so small that no collapse is left.
    """
    if count % 2 or not 4 <= count <= len(faces):
        raise ValueError(f"count must be even, from 4 to {len(faces)}, got {count}")
    vertices, faces, _ = collapse_edges(vertices, faces, count, generator, edge_weight=edge_weight)
    if len(faces) > count:
        raise ValueError(f"no collapse is left at {len(faces)} faces, wanted {count}")
    return vertices, faces
