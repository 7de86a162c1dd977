"""Frames written as extended XYZ.

On its own because writing needs no other library.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.chemical_symbols import SYMBOLS


def format_extxyz(frames: Iterable[AtomicFrame]) -> str:
    """Give frames as the text of an extended XYZ file, to the last digit.

    Parameters
    ----------
    frames : iterable of AtomicFrame
        In eV and angstrom, which is what other programs expect there.

    Returns
    -------
    str
        Lines of all frames; a stress has nine numbers.

    Examples
    --------
    >>> hydrogen = AtomicFrame(
    ...     torch.tensor([1]), torch.zeros(1, 3, dtype=torch.float64), energy=-13.5
    ... )
    >>> print(format_extxyz([hydrogen]), end="")
    1
    Properties=species:S:1:pos:R:3 energy=-13.5 pbc="F F F"
    H 0.0 0.0 0.0
    """
    return "".join(map(_frame, frames))


def _frame(frame: AtomicFrame) -> str:
    header = []
    if frame.cell is not None:
        header.append(f'Lattice="{_numbers(frame.cell)}"')
    columns = [frame.positions]
    properties = "species:S:1:pos:R:3"
    if frame.forces is not None:
        columns.append(frame.forces)
        properties += ":forces:R:3"
    header.append(f"Properties={properties}")
    if frame.energy is not None:
        header.append(f"energy={frame.energy!r}")
    if frame.stress is not None:
        header.append(f'stress="{_numbers(frame.stress)}"')
    header.append(f'pbc="{" ".join("T" if axis else "F" for axis in frame.pbc)}"')
    rows = torch.cat(columns, dim=1)
    atoms = [
        f"{SYMBOLS[number]} {_numbers(row)}\n"
        for number, row in zip(frame.numbers.tolist(), rows, strict=True)
    ]
    return f"{len(frame)}\n{' '.join(header)}\n{''.join(atoms)}"


def _numbers(values: Tensor) -> str:
    return " ".join(map(repr, values.reshape(-1).tolist()))
