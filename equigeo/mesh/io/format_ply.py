"""PLY export with a colour and a label per face."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equigeo.graphs.inputs import check_shape
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh, check_mesh


def format_ply(
    mesh: TriangleMesh,
    *,
    face_colors: Tensor | Sequence[Sequence[int]] | None = None,  # (faces, 3) from 0 to 255
    face_labels: Tensor | Sequence[int] | None = None,  # (faces,) 32-bit integers
) -> bytes:
    """Format a mesh as an ASCII PLY file."""
    check_mesh(mesh)
    columns, properties = [_corners(mesh)], []
    if face_colors is not None:
        columns.append(_colors(face_colors, mesh.num_faces))
        properties += [f"property uchar {name}" for name in ("red", "green", "blue")]
    if face_labels is not None:
        labels = torch.as_tensor(face_labels, dtype=torch.long)
        check_shape(labels, "face_labels", (mesh.num_faces,))
        if bool((labels != labels.int()).any()):
            raise ValueError("face_labels must be integers of 32 bits, from -2^31 to 2^31 - 1")
        columns.append(labels[:, None])
        properties.append("property int label")
    header = [
        "ply",
        "format ascii 1.0",
        f"element vertex {mesh.num_vertices}",
        *(f"property double {axis}" for axis in "xyz"),
        f"element face {mesh.num_faces}",
        "property list uchar int vertex_indices",
        *properties,
        "end_header",
    ]
    # repr gives the shortest text that reads back as the same number
    points = [" ".join(map(repr, row)) for row in mesh.vertices.double().tolist()]
    faces = [" ".join(map(str, row)) for row in torch.cat(columns, dim=1).tolist()]
    return "\n".join([*header, *points, *faces, ""]).encode("ascii")


def _corners(mesh: TriangleMesh) -> Tensor:
    return torch.cat((torch.full((mesh.num_faces, 1), 3), mesh.faces.cpu()), dim=1)


def _colors(given: Tensor | Sequence[Sequence[int]], num_faces: int) -> Tensor:
    colors = torch.as_tensor(given, dtype=torch.long)
    check_shape(colors, "face_colors", (num_faces, 3))
    if ((colors < 0) | (colors > 255)).any():
        raise ValueError("face_colors must be from 0 to 255")
    return colors
