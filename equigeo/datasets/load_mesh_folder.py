"""Reader of the MeshCNN folder layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import torch

from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.unpack_archive import ARCHIVE_SUFFIXES, unpack_archive
from equigeo.mesh import LoadReport, MeshError, TriangleMesh, load_mesh

_MESH_SUFFIXES = (".glb", ".obj", ".off", ".ply", ".stl")
_PARTS = ("train", "test")
_FOREIGN = frozenset({"cache", "__MACOSX"})  # folders that MeshCNN and archivers leave behind
_LAYOUT = "<class>/train/*.obj and <class>/test/*.obj (or .glb, .off, .ply, .stl)"
_LISTED = 5  # failures that a message shows; the others are counted


class _Member(NamedTuple):
    path: Path
    label: int
    in_train: bool


def load_mesh_folder(path: str | os.PathLike[str], *, strict: bool = False) -> MeshDataset:
    """Load a labelled mesh collection laid out as ``<class>/{train,test}/<mesh file>``.

    A class's label is its position in the sorted list of class folders. Hidden entries, ``cache``
    and loose files such as ``classes.txt`` are ignored. One enclosing folder, as archives have it,
    is entered by itself.

    Parameters
    ----------
    path : path-like
        The folder, or a ``.tar.gz``, ``.tgz``, ``.tar.xz`` or ``.zip`` archive of it, which is
        unpacked into the cache.
    strict : bool
        Refuse meshes that would need repair, as in ``load_mesh``.

    Returns
    -------
    MeshDataset
        Meshes by class, training meshes first, then by file name; ``names`` are paths below the
        folder, with forward slashes, and ``reports`` say what was repaired.

    Raises
    ------
    ValueError
        If the path is missing, neither folder nor archive, or not laid out as above with at least
        two classes.
    MeshError
        If any mesh cannot be used; the message counts them and names the first.

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
    given = Path(path)
    root = _enter(_folder_of(given))
    classes = _class_folders(root, given)
    members = [m for label, folder in enumerate(classes) for m in _members(folder, label, given)]
    meshes, reports = _load_all(members, root, given, strict)
    return MeshDataset(
        meshes=meshes,
        labels=torch.tensor([m.label for m in members]),
        classes=tuple(folder.name for folder in classes),
        names=tuple(m.path.relative_to(root).as_posix() for m in members),
        in_train=torch.tensor([m.in_train for m in members]),
        reports=reports,
    )


def _folder_of(given: Path) -> Path:
    """Give the folder itself, or the one that the archive is unpacked to."""
    if not given.exists():
        raise ValueError(f"{given}: no such file or folder")
    if given.is_dir():
        return given
    if given.name.lower().endswith(ARCHIVE_SUFFIXES):
        return unpack_archive(given)
    raise ValueError(
        f"{given}: expected a folder or an archive ({', '.join(ARCHIVE_SUFFIXES)}), got a file"
    )


def _folders(root: Path) -> list[Path]:
    """List the visible folders in ``root``, sorted by name."""
    found = (p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    return sorted((p for p in found if p.name not in _FOREIGN), key=lambda p: p.name)


def _is_class(folder: Path) -> bool:
    return any((folder / part).is_dir() for part in _PARTS)


def _enter(root: Path) -> Path:
    """Step into a single enclosing folder that holds classes but is none."""
    folders = _folders(root)
    if (
        len(folders) == 1
        and not _is_class(folders[0])
        and any(map(_is_class, _folders(folders[0])))
    ):
        return folders[0]
    return root


def _class_folders(root: Path, given: Path) -> list[Path]:
    folders = _folders(root)
    classes = [folder for folder in folders if _is_class(folder)]
    if not classes:
        raise ValueError(f"{given}: found no class folders; expected {_LAYOUT}")
    if len(classes) < len(folders):
        stray = next(folder.name for folder in folders if not _is_class(folder))
        raise ValueError(
            f"{given}: folder {stray!r} has neither train nor test; expected {_LAYOUT}"
        )
    if len(classes) == 1:
        raise ValueError(
            f"{given}: found only the class {classes[0].name!r}; "
            "classification needs at least two class folders"
        )
    return classes


def _members(folder: Path, label: int, given: Path) -> list[_Member]:
    members = [
        _Member(path, label, part == "train")
        for part in _PARTS
        if (folder / part).is_dir()
        for path in sorted((folder / part).iterdir(), key=lambda p: p.name)
        if path.suffix.lower() in _MESH_SUFFIXES and not path.name.startswith(".")
    ]
    if not members:
        raise ValueError(f"{given}: class {folder.name!r} has no mesh files; expected {_LAYOUT}")
    return members


def _load_all(
    members: list[_Member], root: Path, given: Path, strict: bool
) -> tuple[tuple[TriangleMesh, ...], tuple[LoadReport, ...]]:
    """Load every member, or raise one error for all that fail."""
    loaded, failures = [], []
    for member in members:
        try:
            loaded.append(load_mesh(member.path, strict=strict))
        except (MeshError, OSError) as error:
            failures.append(f"{member.path.relative_to(root).as_posix()}: {error}")
    if failures:
        shown = "\n  ".join(failures[:_LISTED])
        more = f"\n  and {len(failures) - _LISTED} more" if len(failures) > _LISTED else ""
        raise MeshError(
            f"{given}: {len(failures)} of {len(members)} mesh files cannot be used; "
            f"repair or remove them:\n  {shown}{more}"
        )
    return tuple(mesh for mesh, _ in loaded), tuple(report for _, report in loaded)
