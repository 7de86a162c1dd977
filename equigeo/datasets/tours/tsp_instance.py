"""Instance of the travelling-salesman problem with TSPLIB's distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_PI, _RADIUS = 3.141592, 6378.388  # TSPLIB's, both part of the definition of GEO


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
            _check_matrix(self.matrix)
        elif self.kind not in _DISTANCES:
            known = ", ".join([*_DISTANCES, "EXPLICIT"])
            raise ValueError(f"distances must be {known}, got {self.kind!r}")
        elif self.matrix is not None or self.coordinates is None:
            raise ValueError(f"distances of the kind {self.kind} need coordinates and no matrix")
        else:
            _check_coordinates(self.coordinates)

    def __repr__(self) -> str:
        """Return name and size without coordinates."""
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


def _check_matrix(matrix: NDArray[np.int64] | None) -> None:
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError("explicit distances need a square matrix")
    if not np.array_equal(matrix, matrix.T):
        raise ValueError("distances must be symmetric")


def _check_coordinates(coordinates: NDArray[np.float64]) -> None:
    if coordinates.ndim != 2 or coordinates.shape[1] != 2 or not coordinates.size:
        raise ValueError(f"coordinates must be (cities, 2), got {coordinates.shape}")
    if not np.isfinite(coordinates).all():
        raise ValueError("coordinates must be finite")


def _euclidean(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(((a - b) ** 2).sum(-1))


def _rounded(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.floor(_euclidean(a, b) + 0.5)


def _ceiled(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ceil(_euclidean(a, b))


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
    "EUC_2D": _rounded,
    "CEIL_2D": _ceiled,
    "ATT": _pseudo_euclidean,
    "GEO": _geographical,
}
