"""The data set that a configuration names."""

from __future__ import annotations

from typing import Final

from equigeo.datasets import MeshDataset, articulated_shapes, load_mesh_folder

BUILTIN: Final = "builtin"


def load_data(data: str) -> MeshDataset:
    """Load the built-in data set, or a folder or archive in the MeshCNN layout.

    Parameters
    ----------
    data : str
        ``"builtin"``, or a path.

    Raises
    ------
    ValueError
        If the path holds no usable data set; the message names the file and the remedy.
    """
    if data == BUILTIN:
        return articulated_shapes()
    return load_mesh_folder(data)
