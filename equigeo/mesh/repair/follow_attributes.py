"""Transfer of file attributes to the repaired mesh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.io.file_attributes import FileAttributes, differing_attributes
from equigeo.mesh.io.file_mesh import FileMesh


def follow_attributes(
    file: FileMesh,
    triangle: NDArray[np.int64],  # (faces,) index among the triangles of the file
    turned: NDArray[np.bool_],  # (faces,) whether the triangle was flipped
    faces: NDArray[np.int64],  # (faces, 3) of the result
    source: NDArray[np.int64],  # (vertices,) vertex in the file
) -> FileAttributes:
    """Reorder the attributes of a file for the repaired mesh; corners become (faces, 3, ...)."""
    given = file.attributes
    if not given:
        return given
    corners, polygon = file.fan_corners()
    corners, polygon = corners[triangle], polygon[triangle]
    corners = np.where(turned[:, None], corners[:, [0, 2, 1]], corners)
    own, shared = file.corners[corners], source[faces]
    # Of merged vertices the first gives the value; where values differ, corners keep their own
    # under the same name, unless the file has a corner attribute of that name.
    return FileAttributes(
        {name: values[source] for name, values in given.vertices.items()},
        {name: values[polygon] for name, values in given.faces.items()},
        differing_attributes(given.vertices, own, shared)
        | {name: values[corners] for name, values in given.corners.items()},
        given.warnings,
    )
