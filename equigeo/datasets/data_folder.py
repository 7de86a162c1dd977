"""The folder behind a path that a user gives: a folder, an archive, one enclosing folder more.

On its own because it is the same for every layout.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equigeo.datasets.unpack_archive import ARCHIVE_SUFFIXES, unpack_archive

_FOREIGN = frozenset({"cache", "__MACOSX"})  # folders that MeshCNN and archivers leave behind


def data_folder(given: Path, has_layout: Callable[[Path], bool]) -> Path:
    """Give the folder with the data, unpacked and entered as needed.

    Parameters
    ----------
    given : Path
        A folder, or an archive of one.
    has_layout : callable
        Tells whether a folder is the one that is meant; a single enclosing folder is entered.

    Raises
    ------
    ValueError
        If the path is missing, or neither folder nor archive, or the archive cannot be unpacked.
    """
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
