"""Cached optimal tour lengths of random instances."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.save_arrays import save_arrays
from equigeo.datasets.tours.optimal_tour import optimal_tour

BLOCK = 250  # instances in a cached file: a few seconds of work for twenty cities


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
    path = cache_folder() / "optimal_lengths" / f"{digest}.npz"
    lengths = _saved(path, len(cities))
    if lengths is None:
        lengths = np.array([_length(instance) for instance in cities])
        save_arrays(path, {"lengths": lengths})
    return lengths


def _saved(path: Path, number: int) -> NDArray[np.float64] | None:
    """Read a block; return None if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            lengths = np.asarray(archive["lengths"], dtype=np.float64)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return lengths if lengths.shape == (number,) else None


def _length(cities: NDArray[np.float64]) -> float:
    distances = np.linalg.norm(cities[:, None] - cities, axis=-1)
    tour = optimal_tour(distances)
    return float(distances[tour, np.roll(tour, -1)].sum())
