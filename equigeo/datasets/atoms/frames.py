"""Atomic structure with energy, forces and stress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, Final, overload

import torch
from numpy.typing import NDArray
from torch import Tensor

# Periodic lattice vectors, scaled to length one, span at least this volume; below it their
# reciprocals have lost most of their digits.
_FLAT = 1e-6
_LABELS = ("energy", "forces", "stress")
SYMBOLS: Final[tuple[str, ...]] = tuple(
    """
    X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se
    Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy
    Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf
    Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
    """.split()
)
HEAVIEST: Final = len(SYMBOLS) - 1


def symbol(number: int) -> str:
    """Return the symbol of an atomic number, or the number itself if there is no such element."""
    return SYMBOLS[number] if 0 < number <= HEAVIEST else str(number)


@dataclass(frozen=True, eq=False)
class AtomicFrame:
    """Atomic structure with energy, forces and stress, in eV and angstrom.

    Parameters
    ----------
    numbers : Tensor, (atoms,), int64
        Atomic numbers.
    positions : Tensor, (atoms, 3), float64
        In angstrom; not wrapped into the cell.
    cell : Tensor, (3, 3), float64, optional
        Rows are lattice vectors in angstrom; required for periodic axes.
    pbc : tuple of three bool
        Periodic axes.
    energy : float, optional
        Total energy in eV.
    forces : Tensor, (atoms, 3), float64, optional
        In eV/angstrom.
    stress : Tensor, (3, 3), float64, optional
        In eV/angstrom^3, positive in tension: the derivative of the energy by the strain, divided
        by the volume of the cell. Requires a periodic axis and a cell of three vectors.
    name : str
        Origin, for messages. It comes from files, so whatever displays it must escape it.
    info : mapping of str to object
        Other entries of the file for the structure, such as ``config_type``; not validated.
    columns : mapping of str to ndarray, (atoms, ...)
        Other entries of the file for the atoms; not validated.

    Examples
    --------
    >>> water = AtomicFrame(torch.tensor([8, 1, 1]), torch.eye(3, dtype=torch.float64), energy=-2.0)
    >>> water
    AtomicFrame(H2O, energy)
    """

    numbers: Tensor
    positions: Tensor
    cell: Tensor | None = None
    pbc: tuple[bool, bool, bool] = (False, False, False)
    energy: float | None = None
    forces: Tensor | None = None
    stress: Tensor | None = None
    name: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate the fields."""
        atoms = len(self.numbers)
        _check_tensor("numbers", self.numbers, (atoms,), torch.int64)
        _check_tensor("positions", self.positions, (atoms, 3), torch.float64)
        for name, shape in (("cell", (3, 3)), ("forces", (atoms, 3)), ("stress", (3, 3))):
            value = getattr(self, name)
            if value is not None:
                _check_tensor(name, value, shape, torch.float64)
        if atoms == 0:
            raise ValueError("a frame must have atoms, got none")
        low, high = (int(x) for x in self.numbers.aminmax())
        if low < 1 or high > HEAVIEST:
            raise ValueError(f"atomic numbers must be 1 to {HEAVIEST}, got {low} to {high}")
        if self.energy is not None and not isfinite(self.energy):
            raise ValueError(f"the energy must be finite, got {self.energy}")
        self._check_cell()

    def _check_cell(self) -> None:
        if len(self.pbc) != 3 or not all(isinstance(axis, bool) for axis in self.pbc):
            raise ValueError(f"pbc must be three flags, got {self.pbc!r}")
        if not any(self.pbc):
            if self.stress is not None:
                raise ValueError("a stress needs a periodic axis, got none")
            return
        if self.cell is None:
            raise ValueError(f"periodic axes need a cell, got none with pbc {self.pbc}")
        rows = self.cell[torch.tensor(self.pbc)]
        lengths = rows.norm(dim=1)
        volume = (rows / lengths[:, None]).det().abs() if len(rows) == 3 else _spanned(rows)
        if not bool(lengths.min() > 0) or not float(volume) > _FLAT:
            raise ValueError(f"periodic lattice vectors must span a cell, got {rows.tolist()}")
        if self.stress is not None and not bool(self.cell.det() != 0):
            raise ValueError(f"a stress needs a cell with a volume, got {self.cell.tolist()}")

    def __repr__(self) -> str:
        labels = [name for name in _LABELS if getattr(self, name) is not None]
        axes = "".join("T" if axis else "F" for axis in self.pbc)
        periodic = [f"periodic {axes}"] if any(self.pbc) else []
        return f"AtomicFrame({', '.join([self.formula, *periodic, *labels])})"

    def __len__(self) -> int:
        """Return the number of atoms."""
        return len(self.numbers)

    @property
    def formula(self) -> str:
        """Symbols and counts in Hill's order: carbon first, then hydrogen, if there is carbon."""
        found = self.numbers.bincount().tolist()
        counts = {SYMBOLS[z]: count for z, count in enumerate(found) if count}
        first = ["C", "H"] if "C" in counts else []
        order = [s for s in first if s in counts] + sorted(counts.keys() - set(first))
        return "".join(f"{s}{counts[s] if counts[s] > 1 else ''}" for s in order)

    @property
    def volume(self) -> float | None:
        """Volume of the cell in angstrom^3 if all axes are periodic."""
        if self.cell is None or not all(self.pbc):
            return None
        return float(self.cell.det().abs())


def _check_tensor(name: str, value: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if value.dtype != dtype:
        raise TypeError(f"{name} must be {dtype}, got {value.dtype}")
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
    if not bool(value.isfinite().all()):
        raise ValueError(f"{name} must be finite")


def _spanned(rows: Tensor) -> Tensor:
    """Return the area or length spanned by one or two unit rows."""
    unit = rows / rows.norm(dim=1, keepdim=True)
    return (unit @ unit.T).det().clamp(min=0).sqrt()


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
        low, high = min(self.num_atoms), max(self.num_atoms)
        elements = " ".join(map(symbol, self.species[:8])) + " ..." * (len(self.species) > 8)
        return (
            f"AtomicFrames({self.name!r:.80}, {len(self)} frames, {low} to {high} atoms of "
            f"{elements})"
        )

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.frames)

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
