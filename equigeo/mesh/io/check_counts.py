"""Refuse a header that promises more than the file can hold, and faces beyond all measure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.io.limits import MAX_CORNERS


def check_counts(vertices: int, faces: int, available: int, unit: str) -> None:
    """Compare the counts of a header with what follows it, before anything is allocated.

    Parameters
    ----------
    vertices, faces : int
        Counts of the header.
    available : int
        How many of them the file has room for.
    unit : str
        What was counted, for the message.

    Raises
    ------
    MeshError
        If a count is negative or there is too little room.

    Examples
    --------
    >>> check_counts(3, 1, 4, "lines of data")
    """
    if vertices < 0 or faces < 0:
        raise MeshError(f"announces {vertices} vertices and {faces} faces; counts start at 0")
    if vertices + faces > available:
        raise MeshError(
            f"announces {vertices} vertices and {faces} faces, but has only {available} {unit}: "
            "the file is truncated or its header is wrong; export the mesh again"
        )


def check_corners(sizes: NDArray[np.int64]) -> None:
    """Refuse faces of too many corners, before these are read.

    Parameters
    ----------
    sizes : ndarray, (faces,), int64
        Number of corners of each face.

    Raises
    ------
    MeshError
        Naming the first face of more than ``MAX_CORNERS``.

    Examples
    --------
    >>> check_corners(np.array([3, 100_000]))
    Traceback (most recent call last):
    equigeo.mesh.errors.MeshError: face 1 has 100000 corners, more than 65536; cut it into triangles
    """
    if sizes.max(initial=0) > MAX_CORNERS:
        face = int((sizes > MAX_CORNERS).argmax())
        raise MeshError(
            f"face {face} has {sizes[face]} corners, more than {MAX_CORNERS}; cut it into triangles"
        )
