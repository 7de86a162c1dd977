"""Instances of the travelling-salesman problem, TSPLIB, and optimal tours."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import scipy
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equigeo.datasets.cache import cached_arrays
from equigeo.datasets.class_folders import data_folder

_PI, _RADIUS = 3.141592, 6378.388  # TSPLIB's, both part of the definition of GEO
BLOCK = 250  # instances in a cached file: a few seconds of work for twenty cities
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


@dataclass(frozen=True, eq=False)
class TSPInstance:
    """Cities and the integer distances between them.

    Parameters
    ----------
    name : str
        Name of the file; whatever displays it must escape it.
    kind : {"EUC_2D", "CEIL_2D", "ATT", "GEO", "EXPLICIT"}
        Distances: Euclidean, rounded or rounded up; pseudo-Euclidean; great circles in kilometers;
        or given by ``matrix``.
    coordinates : ndarray, (cities, 2), float64, optional
        For ``GEO``, latitude and longitude in degrees and minutes (DDD.MM).
    matrix : ndarray, (cities, cities), int64, optional
    best : int, optional
        Length of the best known tour.
    fixed : tuple of (int, int)
        Edges that every tour must contain.

    References
    ----------
    Reinelt, "TSPLIB95", 1995.

    Examples
    --------
    >>> corners = np.array([[0.0, 0], [3, 0], [3, 4], [0, 4]])
    >>> instance = TSPInstance("box", "EUC_2D", corners)
    >>> instance.length([0, 1, 2, 3]), instance.length([0, 2, 1, 3])
    (14, 18)
    """

    name: str
    kind: str
    coordinates: NDArray[np.float64] | None = None
    matrix: NDArray[np.int64] | None = None
    best: int | None = None
    fixed: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.kind == "EXPLICIT":
            matrix = self.matrix
            if matrix is None or matrix.ndim != 2 or len(set(matrix.shape)) > 1 or not matrix.size:
                raise ValueError("explicit distances need a square matrix")
            if not np.array_equal(matrix, matrix.T):
                raise ValueError("distances must be symmetric")
        elif self.kind not in _DISTANCES:
            known = ", ".join([*_DISTANCES, "EXPLICIT"])
            raise ValueError(f"distances must be {known}, got {self.kind!r}")
        elif self.matrix is not None or self.coordinates is None:
            raise ValueError(f"distances of the kind {self.kind} need coordinates and no matrix")
        elif self.coordinates.shape[1:] != (2,) or not self.coordinates.size:
            raise ValueError(f"coordinates must be (cities, 2), got {self.coordinates.shape}")
        elif not np.isfinite(self.coordinates).all():
            raise ValueError("coordinates must be finite")

    def __repr__(self) -> str:
        return f"TSPInstance({self.name!r:.80}, {self.kind}, {len(self)} cities, best {self.best})"

    def __len__(self) -> int:
        """Return the number of cities."""
        table = self.matrix if self.coordinates is None else self.coordinates
        return 0 if table is None else len(table)

    def distances(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.int64]:
        """Return the distances between pairs of cities, which are broadcast, as int64."""
        a, b = np.asarray(a), np.asarray(b)
        if self.matrix is not None:
            return self.matrix[a, b]
        if self.coordinates is None:
            raise ValueError("there are neither coordinates nor a matrix")
        return _DISTANCES[self.kind](self.coordinates[a], self.coordinates[b]).astype(np.int64)

    def length(self, tour: ArrayLike) -> int:
        """Return the length of a closed tour, a permutation of the cities."""
        order = np.asarray(tour)
        if order.shape != (len(self),) or not np.array_equal(np.sort(order), np.arange(len(self))):
            raise ValueError(f"{self.name}: a tour must visit each of {len(self)} cities once")
        return int(self.distances(order, np.roll(order, -1)).sum())


def _euclidean(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(((a - b) ** 2).sum(-1))


def _geographical(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    (latitude_a, longitude_a), (latitude_b, longitude_b) = _radians(a), _radians(b)
    # The spherical law of cosines in the form of TSPLIB, so that rounding agrees.
    q1 = np.cos(longitude_a - longitude_b)
    q2 = np.cos(latitude_a - latitude_b)
    q3 = np.cos(latitude_a + latitude_b)
    cosine = 0.5 * ((1 + q1) * q2 - (1 - q1) * q3)
    return np.floor(_RADIUS * np.arccos(np.clip(cosine, -1, 1)) + 1)


def _radians(position: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # DDD.MM: the fraction holds minutes in hundredths, 100 / 60 = 5 / 3 of itself in degrees.
    degrees = np.trunc(position)
    angle = _PI * (degrees + 5 * (position - degrees) / 3) / 180
    return angle[..., 0], angle[..., 1]


_DISTANCES = {
    "EUC_2D": lambda a, b: np.floor(_euclidean(a, b) + 0.5),
    "CEIL_2D": lambda a, b: np.ceil(_euclidean(a, b)),
    "ATT": lambda a, b: np.ceil(np.sqrt(((a - b) ** 2).sum(-1) / 10)),
    "GEO": _geographical,
}


def uniform_cities(number: int, cities: int, seed: int = 1234) -> Tensor:
    """Draw cities uniformly from the unit square.

    Parameters
    ----------
    number : int
        Number of instances. A smaller number returns the first of them.
    cities : int
        Cities per instance.
    seed : int
        1234 reproduces the published test sets ``tsp20_test_seed1234`` etc. of 10,000 instances.

    Returns
    -------
    Tensor, (number, cities, 2), float64

    References
    ----------
    Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", ICLR 2019.

    Examples
    --------
    >>> uniform_cities(1, 20)[0, 0].tolist()
    [0.1915194503788923, 0.6221087710398319]
    """
    if min(number, cities) < 1 or not 0 <= seed < 2**32:
        raise ValueError(
            "numbers must be positive and the seed one of 32 bits, got "
            f"{number} instances of {cities} cities, seed {seed}"
        )
    # the generator of the published sets
    generator = np.random.RandomState(seed)
    return torch.from_numpy(generator.uniform(size=(number, cities, 2)))


def optimal_tour(distances: ArrayLike) -> NDArray[np.int64]:
    """Solve the symmetric travelling-salesman problem exactly for a few dozen cities."""
    table = np.asarray(distances, dtype=np.float64)
    square = table.ndim == 2 and table.shape[0] == table.shape[1]
    if not (square and np.isfinite(table).all() and np.array_equal(table, table.T)):
        raise ValueError(f"distances must be a finite symmetric matrix, got {table.shape}")
    cities = len(table)
    if cities < 4:  # all tours are the same
        return np.arange(cities)
    a, b = np.triu_indices(cities, 1)
    cost = table[a, b]
    edges = np.arange(len(cost))
    at_city = scipy.sparse.coo_array(
        (np.ones(2 * len(cost)), (np.concatenate([a, b]), np.concatenate([edges, edges]))),
        shape=(cities, len(cost)),
    )
    constraints = [scipy.optimize.LinearConstraint(at_city, 2, 2)]
    while True:
        chosen = _solve(cost, constraints)
        graph = scipy.sparse.coo_array(
            (np.ones(chosen.sum()), (a[chosen], b[chosen])), shape=(cities, cities)
        ).tocsr()
        number, part = scipy.sparse.csgraph.connected_components(graph, directed=False)
        if number == 1:
            order, _ = scipy.sparse.csgraph.depth_first_order(graph, 0, directed=False)
            return order.astype(np.int64)
        # Subtour elimination: k cities that are a tour of their own may have k - 1 edges inside.
        inside = (part[a] == np.arange(number)[:, None]) & (part[b] == np.arange(number)[:, None])
        most = np.bincount(part) - 1
        constraints.append(
            scipy.optimize.LinearConstraint(inside.astype(np.float64), -np.inf, most)
        )


def _solve(
    cost: NDArray[np.float64], constraints: list[scipy.optimize.LinearConstraint]
) -> NDArray[np.bool_]:
    result = scipy.optimize.milp(
        cost,
        constraints=constraints,
        integrality=np.ones(len(cost)),
        bounds=scipy.optimize.Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    if not result.success:
        raise RuntimeError(f"the solver gave up: {result.message}")
    return np.asarray(result.x > 0.5)


def optimal_lengths(cities: Tensor) -> Tensor:
    """Compute the lengths of shortest tours; results are cached per block of instances.

    Parameters
    ----------
    cities : Tensor, (B, cities, 2), floating
        In units in which distances are about one. Twenty cities take about 30 ms.

    Returns
    -------
    Tensor, (B,), float64
        Euclidean lengths, minimal to a millionth.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with patch.dict(os.environ, EQUIGEO_CACHE=folder):
    ...         optimal_lengths(torch.tensor([[[0.0, 0], [1, 1], [1, 0], [0, 1]]]))
    tensor([4.], dtype=torch.float64)
    """
    if cities.ndim != 3 or not bool(cities.isfinite().all()):
        raise ValueError(f"cities must be finite (B, cities, 2), got {tuple(cities.shape)}")
    blocks = cities.detach().double().cpu().split(BLOCK)
    return torch.from_numpy(np.concatenate([np.zeros(0), *(_block(b.numpy()) for b in blocks)]))


def _block(cities: NDArray[np.float64]) -> NDArray[np.float64]:
    digest = hashlib.sha256(f"{cities.shape} ".encode() + cities.tobytes()).hexdigest()
    return cached_arrays(
        f"optimal_lengths/{digest}.npz",
        None,
        lambda: {"lengths": np.array([_length(instance) for instance in cities])},
        lambda arrays: arrays["lengths"].astype(np.float64).reshape(len(cities)),
    )


def _length(cities: NDArray[np.float64]) -> float:
    distances = np.linalg.norm(cities[:, None] - cities, axis=-1)
    tour = optimal_tour(distances)
    return float(distances[tour, np.roll(tour, -1)].sum())


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
    for line in filter(None, map(str.strip, text.splitlines())):
        if line == "EOF":
            break
        if line[0].isalpha():
            key, colon, value = (part.strip() for part in line.partition(":"))
            if not colon and key.endswith("_SECTION"):
                words = sections.setdefault(key, [])
                continue
            header[key], words = value, None
        elif "_" in line:  # which Python takes for a separator of digits
            raise ValueError(f"a number with an underscore: {line[:40]!r}")
        elif words is None:
            raise ValueError(f"numbers outside of a section: {line[:40]!r}")
        else:
            words.extend(line.split())
    return header, sections


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
    for line in filter(str.strip, path.read_text(encoding="utf-8").splitlines()):
        name, _, rest = line.partition(":")
        length = rest.split()[:1]
        if not (length and length[0].isdigit()):
            raise ValueError(f"{path}: expected a name, a colon and a length, got {line[:60]!r}")
        found[name.strip()] = int(length[0])
    return found
