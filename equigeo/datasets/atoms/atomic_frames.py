"""Sequence of atomic structures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import torch
from torch import Tensor

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.chemical_symbols import symbol

_LABELS = ("energy", "forces", "stress")


@dataclass(frozen=True, eq=False)
class AtomicFrames(Sequence[AtomicFrame]):
    """Sequence of frames; slices and selections are sequences of the same type.

    Parameters
    ----------
    frames : tuple of AtomicFrame
        At least one.
    name : str
        Name in messages. It comes from files, so whatever displays it must escape it.
    keys : tuple of str
        Names of labels and other entries in the file, for messages.

    Examples
    --------
    >>> hydrogen = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3, dtype=torch.float64))
    >>> frames = AtomicFrames((hydrogen, hydrogen), "hydrogen")
    >>> frames, frames.species, len(frames.select([1]))
    (AtomicFrames('hydrogen', 2 frames, 1 to 1 atoms of H), (1,), 1)
    """

    frames: tuple[AtomicFrame, ...]
    name: str = ""
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise if there are no frames."""
        if not self.frames:
            raise ValueError(f"{self.name}: has no frames" if self.name else "frames are missing")

    def __repr__(self) -> str:
        """Return counts without frames."""
        low, high = min(self.num_atoms), max(self.num_atoms)
        elements = " ".join(map(symbol, self.species[:8])) + " ..." * (len(self.species) > 8)
        return (
            f"AtomicFrames({self.name!r:.80}, {len(self)} frames, {low} to {high} atoms of "
            f"{elements})"
        )

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.frames)

    def __iter__(self) -> Iterator[AtomicFrame]:
        """Iterate over the frames in order."""
        return iter(self.frames)

    @overload
    def __getitem__(self, index: int) -> AtomicFrame: ...

    @overload
    def __getitem__(self, index: slice) -> AtomicFrames: ...

    def __getitem__(self, index: int | slice) -> AtomicFrame | AtomicFrames:
        """Return one frame, or the frames of a slice."""
        if isinstance(index, slice):
            return AtomicFrames(self.frames[index], self.name, self.keys)
        return self.frames[index]

    def select(self, positions: Sequence[int] | Tensor) -> AtomicFrames:
        """Return the frames at some positions, in the given order."""
        chosen = torch.as_tensor(positions, dtype=torch.long).tolist()
        return AtomicFrames(tuple(self.frames[i] for i in chosen), self.name, self.keys)

    @cached_property
    def species(self) -> tuple[int, ...]:
        """Atomic numbers of all frames, ascending."""
        return tuple(torch.cat([frame.numbers for frame in self.frames]).unique().tolist())

    @cached_property
    def num_atoms(self) -> tuple[int, ...]:
        """Number of atoms of each frame."""
        return tuple(map(len, self.frames))

    def lacking(self, label: str) -> list[int]:
        """Return the positions of frames without a label: "energy", "forces" or "stress"."""
        if label not in _LABELS:
            raise ValueError(f"label must be one of {', '.join(_LABELS)}, got {label!r}")
        return [k for k, frame in enumerate(self.frames) if getattr(frame, label) is None]

    def require(self, label: str) -> None:
        """Raise ``ValueError`` with the keys of the file if a frame lacks a label."""
        missing = self.lacking(label)
        if missing:
            raise ValueError(
                f"{place_of(self, missing[0])} has no {label} "
                f"({len(missing)} of {len(self)} frames have none){self.found_keys}"
            )

    @property
    def found_keys(self) -> str:
        """Keys of the file as the end of an error message; empty if it has none."""
        shown = ", ".join(key[:40] for key in self.keys[:20])
        return f"; the file has {shown}{', ...' * (len(self.keys) > 20)}" if shown else ""

    def stacked_forces(self) -> Tensor:
        """Return the forces of all atoms of all frames, (atoms, 3), in eV/angstrom."""
        self.require("forces")
        return torch.cat([frame.forces for frame in self.frames if frame.forces is not None])


def place_of(frames: AtomicFrames, position: int) -> str:
    """Return the name of a frame for messages, with its number in the file if it has one."""
    file, _, rest = frames[position].name.partition(f"{frames.name} ")
    number = "" if file else rest.partition(" ")[0]
    return f"{frames.name or 'frames'}: frame {number if number.isdecimal() else position}"
