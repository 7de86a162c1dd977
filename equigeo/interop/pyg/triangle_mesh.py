"""Meshes of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.mesh import TriangleMesh


def triangle_mesh(data: Any) -> TriangleMesh:
    """Convert a mesh of PyTorch Geometric with ``pos`` (vertices, 3) and ``face`` (3, faces).

    A ``Batch`` becomes one mesh; to separate its meshes, convert each of ``batch.to_data_list()``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import torch
    >>> data = SimpleNamespace(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))
    >>> triangle_mesh(data).num_faces
    1
    """
    pos, face = (getattr(data, name, None) for name in ("pos", "face"))
    if not isinstance(pos, Tensor) or not isinstance(face, Tensor):
        raise TypeError(f"expected Data with pos and face, got {type(data).__name__}: {data}")
    if face.ndim != 2 or face.shape[0] != 3:
        raise ValueError(f"face must be (3, faces), got {tuple(face.shape)}")
    return TriangleMesh(pos, face.T)


def triangle_meshes(batch: Any) -> list[TriangleMesh]:
    """Convert each mesh of a batch, or of an iterable of data."""
    items = batch.to_data_list() if hasattr(batch, "to_data_list") else batch
    return [triangle_mesh(data) for data in items]
