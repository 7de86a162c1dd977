"""A triangle mesh: vertex positions and the triangles between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """Vertex positions and triangles, checked once and never changed.

    The order of the faces and of the three indices inside a face is kept: labels and orientation
    depend on it.

    Parameters
    ----------
    vertices : Tensor, (vertices, 3), floating
        Positions, in any unit. Kept in float64: geometry is computed there and cast at the end.
    faces : Tensor, (faces, 3), integer
        Rows of vertex indices; the right-hand rule on a row gives the normal.

    Raises
    ------
    ValueError
        If a shape or dtype is wrong, a position is not finite or an index is out of range.

    Equivariance
    ------------
    ``mesh.act(g)`` moves positions by an affine map and leaves the faces alone, which is what a
    mirrored or rotated file on disk looks like.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> mesh.num_faces, mesh.vertices.dtype
    (1, torch.float64)
    """

    vertices: Tensor
    faces: Tensor

    def __post_init__(self) -> None:
        vertices, faces = self.vertices, self.faces
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not vertices.is_floating_point():
            raise ValueError(
                "vertices must be floating (vertices, 3), "
                f"got {vertices.dtype} {tuple(vertices.shape)}"
            )
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype not in _INTEGERS:
            raise ValueError(
                f"faces must be integer (faces, 3), got {faces.dtype} {tuple(faces.shape)}"
            )
        if not bool(torch.isfinite(vertices).all()):
            raise ValueError("vertices must be finite, got NaN or infinity")
        if len(faces) and (int(faces.min()) < 0 or int(faces.max()) >= len(vertices)):
            raise ValueError(
                f"faces must index {len(vertices)} vertices, "
                f"got indices from {int(faces.min())} to {int(faces.max())}"
            )
        # Copies: what was checked here must not change when the caller writes to their tensors.
        object.__setattr__(self, "vertices", vertices.to(torch.float64, copy=True))
        object.__setattr__(self, "faces", faces.to(torch.int64, copy=True))

    @property
    def num_vertices(self) -> int:
        """Number of vertices, used or not."""
        return len(self.vertices)

    @property
    def num_faces(self) -> int:
        """Number of triangles."""
        return len(self.faces)

    def act(self, g: Tensor) -> TriangleMesh:
        """Move the positions by an affine map; a reflection does not touch the winding.

        Parameters
        ----------
        g : Tensor, (3, 3) or (4, 4)
            A linear map, or a homogeneous matrix whose last column holds the translation.

        Returns
        -------
        TriangleMesh
            The moved mesh with the same faces.

        Raises
        ------
        ValueError
            If ``g`` has another shape.

        Examples
        --------
        >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
        >>> mesh.act(torch.diag(torch.tensor([1.0, 1.0, -1.0]))).vertices[2].tolist()
        [0.0, 0.0, -1.0]
        """
        if g.shape not in ((3, 3), (4, 4)):
            raise ValueError(f"g must be (3, 3) or homogeneous (4, 4), got {tuple(g.shape)}")
        g = g.to(self.vertices)
        # Rows are positions: x' = A x + t becomes X' = X A^T + t.
        moved = self.vertices @ g[:3, :3].mT
        if len(g) == 4:
            moved = moved + g[:3, 3]
        return TriangleMesh(moved, self.faces)


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
