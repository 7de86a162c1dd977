"""Loader for TSPLIB."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from equigeo.datasets.data_folder import data_folder
from equigeo.datasets.tours.read_tsplib import read_tsplib
from equigeo.datasets.tours.tsp_instance import TSPInstance

_SOLUTIONS = "solutions"


def load_tsplib(path: str | os.PathLike[str], *, most: int | None = None) -> list[TSPInstance]:
    """Load the symmetric instances of TSPLIB with their best known lengths, by number of cities.

    Parameters
    ----------
    path : path-like
        Folder with ``*.tsp`` and ``solutions`` (lines ``name : length``), the folder that holds it,
        or an archive of either, which is unpacked into the cache. ``tsplib.tar.xz`` in the folder
        is found.
    most : int, optional
        Largest number of cities.

    References
    ----------
    Reinelt, "TSPLIB95", 1995.

    Examples
    --------
    >>> load_tsplib("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    given = Path(path)
    folder = _enter(given)
    files = sorted(folder.glob("*.tsp"))
    if not files:
        raise ValueError(f"{given}: holds no *.tsp; expected the files of TSPLIB")
    best = _lengths(folder / _SOLUTIONS)
    known = [
        replace(instance, best=best.get(instance.name))
        for instance in map(read_tsplib, files)
        if most is None or len(instance) <= most
    ]
    return sorted(known, key=lambda instance: (len(instance), instance.name))


def _enter(path: Path) -> Path:
    """Return the folder of the instances."""
    path = data_folder(path, bool)
    if any(path.glob("*.tsp")):
        return path
    # As the collection of data sets keeps it: packed, beside a description.
    archive = path / "tsplib.tar.xz"
    if archive.is_file():
        return _enter(archive)
    inner = sorted({file.parent for file in path.glob("*/*.tsp")})
    return inner[0] if inner else path


def _lengths(path: Path) -> dict[str, int]:
    """Read best known lengths; empty if there is no file."""
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, colon, rest = line.partition(":")
        length = rest.split()[:1]
        if line.strip() and not (colon and length and length[0].isdigit()):
            raise ValueError(f"{path}: expected a name, a colon and a length, got {line[:60]!r}")
        if line.strip():
            found[name.strip()] = int(length[0])
    return found
