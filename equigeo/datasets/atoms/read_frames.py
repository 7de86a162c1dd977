"""Helpers of frame readers: arrays of npz files and errors that name file and frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames

# Less than any two atoms of the published sets, of which dimers go down to 0.35 angstrom, and more
# than bonds in nanometres.
_NEAREST = 0.2
_LARGEST_PAIRED = 2000  # atoms whose distances are all looked at

Arrays = Mapping[str, NDArray[np.generic]]


def double(values: NDArray[np.generic]) -> Tensor:
    """Copy an array as float64."""
    return torch.from_numpy(values.astype(np.float64))


def build_frames(
    path: Path,
    number: int,
    build: Callable[[int], AtomicFrame],
    name: str = "",  # default: the file name
) -> AtomicFrames:
    """Build the frames of a file; errors name file and frame."""
    frames = []
    for k in range(number):
        try:
            frame = build(k)
            _check_distances(frame)
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{path}: frame {k}: {error}") from error
        frames.append(frame)
    if not frames:
        raise ValueError(f"{path}: has no frames")
    return AtomicFrames(tuple(frames), name or path.name)


def _check_distances(frame: AtomicFrame) -> None:
    """Raise for overlapping atoms, a sign of positions in nanometres."""
    if not 1 < len(frame) <= _LARGEST_PAIRED:
        return
    nearest = float(torch.pdist(frame.positions).min())
    if nearest < _NEAREST:
        raise ValueError(
            f"two atoms are {nearest:.3g} angstrom apart; positions must be in angstrom "
            "(are these nanometres, or does one atom occur twice?)"
        )


def offsets(path: Path, counts: NDArray[np.generic], given: NDArray[np.generic]) -> list[int]:
    """Validate the offsets of a ragged array against the counts of its parts."""
    expected = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
    if not np.array_equal(expected, given.astype(np.int64)):
        raise ValueError(f"{path}: atom_offset must be the running sum of n_atoms")
    return [int(offset) for offset in expected]


def check_rows(path: Path, arrays: Arrays, rows: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if an array has another shape than ``rows`` gives."""
    for name, shape in rows.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{path}: {name} must have shape {shape}, got {arrays[name].shape}")
