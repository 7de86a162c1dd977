"""Geodesic distances by the heat method of potpourri3d."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equigeo.interop._require import require


def heat_distances(vertices: np.ndarray, faces: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return a function of geodesic distances for :func:`equigeo.mds.geodesic_embed`.

    Parameters
    ----------
    vertices : ndarray, (V, 3), floating
        Corners.
    faces : ndarray, (F, 3), integer
        Triangles.

    Returns
    -------
    callable
        From a vertex to its distances from all, (V,), in the units of the vertices. The matrices
        of the surface are factorised once.

    Raises
    ------
    ImportError
        If potpourri3d is missing.

    References
    ----------
    Crane, Weischedel and Wardetzky, "Geodesics in heat", 2013.

    Examples
    --------
    >>> import trimesh
    >>> ball = trimesh.creation.icosphere(3)
    >>> distances = heat_distances(ball.vertices, ball.faces)(0)  # doctest: +SKIP
    >>> round(float(distances.max()), 1)  # half way round  # doctest: +SKIP
    3.1
    """
    library = require("potpourri3d", "potpourri3d")
    solver = library.MeshHeatMethodDistanceSolver(vertices, faces)
    return lambda vertex: np.maximum(solver.compute_distance(vertex), 0.0)
