"""Data folder of a given path: a folder, or an archive, with or without one enclosing folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equigeo.datasets.unpack_archive import ARCHIVE_SUFFIXES, unpack_archive

MESH_SUFFIXES = (".glb", ".obj", ".off", ".ply", ".stl")
_LISTED = 5  # failures that a message shows; the others are counted
_FOREIGN = frozenset({"cache", "__MACOSX"})  # folders that MeshCNN and archivers leave behind


def data_folder(given: Path, has_layout: Callable[[Path], bool]) -> Path:
    """Return the data folder of a path: unpack an archive, enter a single enclosing folder."""
    if given.is_dir():
        root = given
    elif not given.exists():
        raise ValueError(f"{given}: no such file or folder")
    elif given.name.lower().endswith(ARCHIVE_SUFFIXES):
        root = unpack_archive(given)
    else:
        kinds = ", ".join(ARCHIVE_SUFFIXES)
        raise ValueError(f"{given}: expected a folder or an archive ({kinds}), got a file")
    inside = visible_folders(root)
    return inside[0] if not has_layout(root) and len(inside) == 1 else root


def visible_folders(root: Path) -> list[Path]:
    """List the folders in ``root`` by name, without hidden ones and leftovers of other programs."""
    found = (path for path in root.iterdir() if path.is_dir() and path.name not in _FOREIGN)
    return sorted(path for path in found if not path.name.startswith("."))


def list_failures(failures: list[str]) -> str:
    """Format the first failures as lines of a message, and count the others."""
    more = len(failures) - _LISTED
    lines = failures[:_LISTED] + ([f"and {more} more"] if more > 0 else [])
    return "".join(f"\n  {line}" for line in lines)
