"""Cached optimal tour lengths of random instances."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.shapes.cached_meshes import cached_arrays
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
