"""Instances of the travelling-salesman problem, and optimal tours."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor

from equigeo.datasets.cache import cached_arrays

_PI, _RADIUS = 3.141592, 6378.388  # TSPLIB's, both part of the definition of GEO
BLOCK = 250  # instances in a cached file: a few seconds of work for twenty cities


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


def _pseudo_euclidean(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    distance = np.sqrt(((a - b) ** 2).sum(-1) / 10)
    nearest = np.floor(distance + 0.5)
    return np.where(nearest < distance, nearest + 1, nearest)


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
    "ATT": _pseudo_euclidean,
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
    at_city = sparse.coo_array(
        (np.ones(2 * len(cost)), (np.concatenate([a, b]), np.concatenate([edges, edges]))),
        shape=(cities, len(cost)),
    )
    constraints = [LinearConstraint(at_city, 2, 2)]
    while True:
        chosen = _solve(cost, constraints)
        graph = sparse.coo_array(
            (np.ones(chosen.sum()), (a[chosen], b[chosen])), shape=(cities, cities)
        ).tocsr()
        number, part = connected_components(graph, directed=False)
        if number == 1:
            return _order(graph)
        # Subtour elimination: k cities that are a tour of their own may have k - 1 edges inside.
        inside = (part[a] == np.arange(number)[:, None]) & (part[b] == np.arange(number)[:, None])
        most = np.bincount(part) - 1
        constraints.append(LinearConstraint(inside.astype(np.float64), -np.inf, most))


def _solve(cost: NDArray[np.float64], constraints: list[LinearConstraint]) -> NDArray[np.bool_]:
    result = milp(
        cost,
        constraints=constraints,
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    if not result.success:
        raise RuntimeError(f"the solver gave up: {result.message}")
    return np.asarray(result.x > 0.5)


def _order(cycle: sparse.csr_array) -> NDArray[np.int64]:
    """Return the cities of a cycle in order."""
    cut = cycle + cycle.T
    start, end = 0, int(cut[[0]].indices.max())
    cut[start, end] = cut[end, start] = 0
    cut.eliminate_zeros()
    order, _ = breadth_first_order(cut, start, directed=False)
    return order.astype(np.int64)


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
        lambda arrays: _checked(arrays["lengths"], len(cities)),
    )


def _checked(lengths: NDArray[np.generic], number: int) -> NDArray[np.float64]:
    if lengths.shape != (number,):
        raise ValueError(f"lengths of shape {lengths.shape}")
    return lengths.astype(np.float64)


def _length(cities: NDArray[np.float64]) -> float:
    distances = np.linalg.norm(cities[:, None] - cities, axis=-1)
    tour = optimal_tour(distances)
    return float(distances[tour, np.roll(tour, -1)].sum())
