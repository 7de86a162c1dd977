"""Refuse a header that promises more than the file can hold."""

from __future__ import annotations

from equigeo.mesh.errors import MeshError


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
