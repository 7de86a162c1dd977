"""Loader for TSPLIB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.class_folders import data_folder
from equigeo.datasets.tours import TSPInstance

MAX_CITIES = 100_000
MAX_MATRIX = 5_000  # cities whose distances are given one by one
MAX_BYTES = 64 << 20
_COORDINATES, _MATRIX = "NODE_COORD_SECTION", "EDGE_WEIGHT_SECTION"
_FIXED, _DISPLAY = "FIXED_EDGES_SECTION", "DISPLAY_DATA_SECTION"
_FORMS: Final[dict[str, Callable[[NDArray[np.bool_]], NDArray[np.bool_]]]] = {
    "FULL_MATRIX": lambda every: every,
    "UPPER_ROW": lambda every: np.triu(every, 1),
    "UPPER_DIAG_ROW": np.triu,
    "LOWER_DIAG_ROW": np.tril,
}  # which entries of a matrix are given, row by row
_SOLUTIONS = "solutions"


def read_tsplib(path: str | Path) -> TSPInstance:
    """Read a symmetric instance from a ``.tsp`` file, named as the file is."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size} bytes, more than {MAX_BYTES}")
        return _instance(path.stem, *_parts(path.read_text(encoding="ascii")))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: cannot be read as an instance of TSPLIB: {error}") from error


def _parts(text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Split a file into its header and the words of its sections."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    words: list[str] | None = None
    for line in _lines(text):
        if line[0].isalpha():
            key, colon, value = (part.strip() for part in line.partition(":"))
            if not colon and key.endswith("_SECTION"):
                words = sections.setdefault(key, [])
                continue
            header[key], words = value, None
        elif words is None:
            raise ValueError(f"numbers outside of a section: {line[:40]!r}")
        else:
            words.extend(line.split())
    return header, sections


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped == "EOF":
            return
        if stripped:
            yield stripped


def _instance(name: str, header: dict[str, str], sections: dict[str, list[str]]) -> TSPInstance:
    missing = {"TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE"} - header.keys()
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    unknown = sections.keys() - {_COORDINATES, _MATRIX, _FIXED, _DISPLAY}
    if header["TYPE"].split()[:1] != ["TSP"] or unknown:
        raise ValueError(f"it is no symmetric instance: {', '.join([header['TYPE'], *unknown])}")
    cities, kind = int(header["DIMENSION"]), header["EDGE_WEIGHT_TYPE"]
    if not 1 <= cities <= MAX_CITIES:
        raise ValueError(f"it has {cities} cities, not 1 to {MAX_CITIES}")
    fixed = _edges(sections.get(_FIXED, []), cities)
    if kind == "EXPLICIT":
        form = header.get("EDGE_WEIGHT_FORMAT", "")
        matrix = _matrix(sections.get(_MATRIX, []), form, cities)
        return TSPInstance(name, kind, matrix=matrix, fixed=fixed)
    coordinates = _coordinates(sections.get(_COORDINATES, []), cities)
    return TSPInstance(name, kind, coordinates, fixed=fixed)


def _coordinates(words: list[str], cities: int) -> NDArray[np.float64]:
    if len(words) != 3 * cities:
        raise ValueError(f"{_COORDINATES} has {len(words)} numbers, expected {3 * cities}")
    table = np.array(words, dtype=np.float64).reshape(cities, 3)
    if not np.array_equal(np.sort(table[:, 0]), np.arange(1, cities + 1)):
        raise ValueError(f"cities must be numbered from 1 to {cities}")
    return table[np.argsort(table[:, 0]), 1:]


def _matrix(words: list[str], form: str, cities: int) -> NDArray[np.int64]:
    if cities > MAX_MATRIX:
        raise ValueError(f"it has {cities} cities with explicit distances, at most {MAX_MATRIX}")
    if form not in _FORMS:
        raise ValueError(f"EDGE_WEIGHT_FORMAT must be {', '.join(_FORMS)}, got {form!r}")
    rows, columns = np.nonzero(_FORMS[form](np.ones((cities, cities), dtype=bool)))
    if len(words) != len(rows):
        raise ValueError(f"{_MATRIX} has {len(words)} numbers, expected {len(rows)}")
    matrix = np.zeros((cities, cities), dtype=np.int64)
    matrix[rows, columns] = np.array(words, dtype=np.int64)
    if form != "FULL_MATRIX":
        matrix[columns, rows] = matrix[rows, columns]
    return matrix


def _edges(words: list[str], cities: int) -> tuple[tuple[int, int], ...]:
    if not words:
        return ()
    ends = [int(word) - 1 for word in words[:-1]]
    if words[-1] != "-1" or len(ends) % 2 or not all(0 <= end < cities for end in ends):
        raise ValueError(f"{_FIXED} must hold pairs of cities and end with -1")
    return tuple(zip(ends[::2], ends[1::2], strict=True))


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
