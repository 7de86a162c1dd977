"""Reference energies of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class FittedReferences:
    """Energy of each element, with the quality of the fit."""

    species: tuple[int, ...]  # atomic numbers that occur, ascending
    energies: tuple[float, ...]  # of one atom of each, in eV
    rank: int  # of the compositions; if below the number of species, only sums are determined
    residual: float  # root mean square, in eV per frame

    @property
    def is_unique(self) -> bool:
        """Return whether the frames determine the energy of each element."""
        return self.rank == len(self.species)


def fit_references(numbers_per_frame: Sequence[Any], energies: ArrayLike) -> FittedReferences:
    r"""Fit a sum of energies of elements to total energies, by least squares.

    .. math:: \min_{E} \sum_f \Bigl(E_f - \sum_z n_{fz} E_z\Bigr)^2

    Parameters
    ----------
    numbers_per_frame : sequence of (atoms,) arrays or tensors, integer
        Atomic numbers of each frame.
    energies : array, (frames,)
        Total energies, in eV.

    Returns
    -------
    FittedReferences
        With the ``energies`` of an atom of each of the ``species``, in eV; the ``rank`` of the
        compositions; whether the energies are unique, ``is_unique``, otherwise those of least norm;
        and the ``residual``, root mean square in eV per frame.

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
