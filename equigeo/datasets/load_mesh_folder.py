"""Reader for the MeshCNN folder layout."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from equigeo.datasets.class_folders import ClassFolders
from equigeo.datasets.data_folder import MESH_SUFFIXES
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.mesh import MeshError, load_mesh


def load_mesh_folder(path: str | os.PathLike[str], *, strict: bool = False) -> MeshDataset:
    """Load a labelled mesh collection laid out as ``<class>/{train,test}/<mesh file>``.

    Labels are positions in the sorted class folders. Hidden entries, ``cache`` and loose files are
    ignored; a single enclosing folder is entered.

    Parameters
    ----------
    path : path-like
        Folder, or ``.tar.gz``, ``.tgz``, ``.tar.xz`` or ``.zip`` archive, which is unpacked into
        the cache.
    strict : bool
        Raise for meshes that need repair, as in `equigeo.mesh.load_mesh`.

    Returns
    -------
    MeshDataset
        Meshes by class, training meshes first, then by file name. ``names`` are paths below the
        folder; ``reports`` list the repairs.

    Raises
    ------
    ValueError
        If the path is missing or its layout is wrong.
    MeshError
        If meshes are unusable; the message counts them and names the first.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the layout).

    Examples
    --------
    >>> load_mesh_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    found = ClassFolders.find(Path(path), MESH_SUFFIXES, "mesh")
    loaded = found.load(lambda member: load_mesh(member.path, strict=strict), MeshError)
    return MeshDataset(
        meshes=tuple(mesh for mesh, _ in loaded),
        labels=torch.tensor([member.label for member in found.members]),
        classes=found.classes,
        names=tuple(map(found.name, found.members)),
        in_train=torch.tensor([member.in_train for member in found.members]),
        reports=tuple(report for _, report in loaded),
    )
