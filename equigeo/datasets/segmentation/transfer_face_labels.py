"""Labels of faces, carried over to another mesh of the same surface.

On its own because it serves training at other resolutions and evaluation alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.datasets.shapes.closest_on_triangles import nearest_triangles
from equigeo.mesh import TriangleMesh


def transfer_face_labels(mesh: TriangleMesh, labels: Tensor, other: TriangleMesh) -> Tensor:
    """Label the faces of another mesh by the nearest faces of this one.

    Parameters
    ----------
    mesh : TriangleMesh
        With some area.
    labels : Tensor, (faces,), int64
        Of its faces; any numbers.
    other : TriangleMesh
        Of the same surface, such as a simplification.

    Returns
    -------
    Tensor, (faces of other,), int64
        Label of the face that is nearest to the centre of each face. Faces without area label
        nothing.

    Raises
    ------
    ValueError
        If there is not one label for each face, or the mesh has no area.

    Equivariance
    ------------
    Moving both meshes alike changes nothing.

    Examples
    --------
    >>> from equigeo.mesh import subdivide
    >>> mesh = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
    >>> transfer_face_labels(mesh, torch.tensor([7, 4]), subdivide(mesh)).bincount(minlength=8)
    tensor([0, 0, 0, 0, 4, 0, 0, 4])
    """
    if labels.shape != (mesh.num_faces,):
        raise ValueError(f"labels must be of {mesh.num_faces} faces, got {tuple(labels.shape)}")
    corners = mesh.vertices[mesh.faces]
    sides = corners[:, 1:] - corners[:, :1]
    whole = torch.linalg.cross(sides[:, 0], sides[:, 1]).norm(dim=1) > 0
    if not bool(whole.any()):
        raise ValueError("the mesh must have some area to carry labels over")
    centres = other.vertices[other.faces].mean(dim=1)
    nearest, _ = nearest_triangles(centres.numpy(), corners[whole].numpy())
    return labels[whole][torch.from_numpy(nearest)]
