"""Attributes of a file, brought into the order of the repaired mesh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.io.file_attributes import FileAttributes, differing_attributes
from equigeo.mesh.io.file_mesh import FileMesh


def follow_attributes(
    file: FileMesh,
    triangle: NDArray[np.int64],
    turned: NDArray[np.bool_],
    faces: NDArray[np.int64],
    source: NDArray[np.int64],
) -> FileAttributes:
    """Give each vertex, face and corner of the result the values that it has in the file.

    Values of a face go to all triangles that it was cut into, those of a vertex to all its copies.
    Of vertices that were merged, the first one gives the value; where they differ, corners have the
    value of their own vertex under the same name, unless the file has a corner attribute of it.
    A value of a corner stays with its vertex where a triangle was turned over; normals keep the
    direction that they have in the file.

    Parameters
    ----------
    file : FileMesh
        What was repaired.
    triangle : ndarray, (faces,), int64
        Which triangle of the file each one is.
    turned : ndarray, (faces,), bool
        Whether it was turned over.
    faces : ndarray, (faces, 3), int64
        Vertex indices of the result.
    source : ndarray, (vertices,), int64
        Vertex of the file that each one is.

    Returns
    -------
    FileAttributes
        Corner attributes are (faces, 3, ...).

    Examples
    --------
    >>> colors = FileAttributes({}, {"part": np.array([7, 8])}, {"u": np.arange(7)})
    >>> file = FileMesh(np.eye(4, 3), np.array([0, 1, 2, 0, 1, 2, 3]), np.array([3, 4]),
    ...                 attributes=colors)
    >>> last, turned = np.array([2]), np.array([True])  # the second half of the square
    >>> found = follow_attributes(file, last, turned, np.array([[0, 2, 1]]), np.array([0, 2, 3]))
    >>> found.faces["part"].tolist(), found.corners["u"].tolist()
    ([8], [[3, 6, 5]])
    """
    given = file.attributes
    if not given:
        return given
    corners, polygon = file.fan_corners()
    corners, polygon = corners[triangle], polygon[triangle]
    corners = np.where(turned[:, None], corners[:, [0, 2, 1]], corners)
    own, shared = file.corners[corners], source[faces]
    return FileAttributes(
        {name: values[source] for name, values in given.vertices.items()},
        {name: values[polygon] for name, values in given.faces.items()},
        differing_attributes(given.vertices, own, shared)
        | {name: values[corners] for name, values in given.corners.items()},
        given.warnings,
    )
