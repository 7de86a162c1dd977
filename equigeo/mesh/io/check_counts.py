"""Validation of the counts in a file header and of polygon sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.limits import MAX_CORNERS


def check_counts(
    vertices: int,
    faces: int,
    available: int,  # number of vertices and faces that fit in the file
    unit: str,  # counted item, for the message
) -> None:
    """Raise ``MeshError`` if a header announces negative counts or more than the file can hold."""
    if vertices < 0 or faces < 0:
        raise MeshError(f"announces {vertices} vertices and {faces} faces; counts start at 0")
    if vertices + faces > available:
        raise MeshError(
            f"announces {vertices} vertices and {faces} faces, but has only {available} {unit}: "
            "the file is truncated or its header is wrong; export the mesh again"
        )


def check_corners(
    sizes: NDArray[np.int64],  # (faces,)
) -> None:
    """Raise ``MeshError`` for the first face with more than ``MAX_CORNERS`` corners."""
    if sizes.max(initial=0) > MAX_CORNERS:
        face = int((sizes > MAX_CORNERS).argmax())
        raise MeshError(
            f"face {face} has {sizes[face]} corners, more than {MAX_CORNERS}; cut it into triangles"
        )
