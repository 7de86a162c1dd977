"""Simplification of a closed surface to an exact number of faces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.remesh.collapse_edges import collapse_edges


def simplify_surface(
    vertices: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3): closed, manifold, oriented; not checked
    count: int,  # even
    generator: np.random.Generator,
    edge_weight: float = 1e-2,  # smaller: more faces at relief
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Collapse edges of a closed manifold surface down to exactly ``count`` faces."""
    if count % 2 or not 4 <= count <= len(faces):
        raise ValueError(f"count must be even, from 4 to {len(faces)}, got {count}")
    vertices, faces, _ = collapse_edges(vertices, faces, count, generator, edge_weight=edge_weight)
    if len(faces) > count:
        raise ValueError(f"no collapse is left at {len(faces)} faces, wanted {count}")
    return vertices, faces
