"""Reference energies of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class FittedReferences:
    """Energy of each element, with the quality of the fit.

    Parameters
    ----------
    species : tuple of int
        Atomic numbers that occur, ascending.
    energies : tuple of float
        Energy of one atom of each, in eV.
    rank : int
        Rank of the compositions. If it is less than the number of species, as for a single
        molecule, only sums over compositions that occur are determined.
    residual : float
        Root mean square of the residual, in eV per frame.

    Examples
    --------
    >>> FittedReferences((1, 8), (-13.6, -2041.8), rank=1, residual=0.0).is_unique
    False
    """

    species: tuple[int, ...]
    energies: tuple[float, ...]
    rank: int
    residual: float

    @property
    def is_unique(self) -> bool:
        """Whether the frames determine the energy of each element."""
        return self.rank == len(self.species)


def fit_references(numbers_per_frame: Sequence[Any], energies: ArrayLike) -> FittedReferences:
    r"""Fit a sum of energies of elements to total energies, by least squares.

    .. math:: \min_{E} \sum_f \Bigl(E_f - \sum_z n_{fz} E_z\Bigr)^2

    If compositions do not determine the energies, the solution has least norm.

    Parameters
    ----------
    numbers_per_frame : sequence of (atoms,) arrays or tensors, integer
        Atomic numbers of each frame.
    energies : array, (frames,)
        Total energies, in eV.

    Examples
    --------
    >>> fitted = fit_references([[1, 1], [1, 1, 8], [8, 8]], [-2.0, -8.0, -12.0])
    >>> fitted.species, [round(energy, 6) for energy in fitted.energies], fitted.is_unique
    ((1, 8), [-1.0, -6.0], True)
    """
    frames = [np.asarray(numbers).reshape(-1) for numbers in numbers_per_frame]
    for k, numbers in enumerate(frames):
        if len(numbers) and numbers.dtype.kind not in "iu":
            raise TypeError(f"atomic numbers of frame {k} must be integers, got {numbers.dtype}")
        if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= 118:
            raise ValueError(
                f"atomic numbers of frame {k} must be 1 to 118, got {numbers.min()} to "
                f"{numbers.max()}"
            )
    totals = np.asarray(energies, np.float64).reshape(-1)
    if not frames or len(frames) != len(totals):
        raise ValueError(
            f"there must be one energy for each of at least one frame, got {len(totals)} "
            f"for {len(frames)} frames"
        )
    for k, (numbers, energy) in enumerate(zip(frames, totals, strict=True)):
        if not len(numbers) or not np.isfinite(energy):
            raise ValueError(
                f"frame {k} must have atoms and a finite energy, got {len(numbers)} atoms and "
                f"{energy}"
            )
    species = np.unique(np.concatenate(frames))
    counts: NDArray[np.float64] = np.stack(
        [np.bincount(np.searchsorted(species, n), minlength=len(species)) for n in frames]
    ).astype(np.float64)
    found, _, rank, _ = np.linalg.lstsq(counts, totals, rcond=None)
    left = totals - counts @ found
    return FittedReferences(
        tuple(int(z) for z in species),
        tuple(float(energy) for energy in found),
        int(rank),
        float(np.sqrt(np.mean(left**2))),
    )
