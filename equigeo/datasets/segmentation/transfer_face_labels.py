"""Labels of faces, carried over to another mesh of the same surface."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.datasets.shapes.closest_on_triangles import nearest_triangles
from equigeo.mesh import TriangleMesh


def transfer_face_labels(
    mesh: TriangleMesh,
    labels: Tensor,  # (faces,)
    other: TriangleMesh,  # same surface, such as a simplification
) -> Tensor:
    """Label the faces of another mesh by the nearest faces of this one, (faces of other,)."""
    if labels.shape != (mesh.num_faces,):
        raise ValueError(f"labels must be of {mesh.num_faces} faces, got {tuple(labels.shape)}")
    corners = mesh.vertices[mesh.faces]
    sides = corners[:, 1:] - corners[:, :1]
    # Faces without area are excluded.
    whole = torch.linalg.cross(sides[:, 0], sides[:, 1]).norm(dim=1) > 0
    if not bool(whole.any()):
        raise ValueError("the mesh must have some area to carry labels over")
    centres = other.vertices[other.faces].mean(dim=1)
    nearest, _ = nearest_triangles(centres.numpy(), corners[whole].numpy())
    return labels[whole][torch.from_numpy(nearest)]
