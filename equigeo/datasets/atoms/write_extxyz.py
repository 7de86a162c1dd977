"""Frames written as extended XYZ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.chemical_symbols import SYMBOLS

_KINDS: Final = {"f": "R", "i": "I", "u": "I", "b": "L", "U": "S", "O": "S"}


def format_extxyz(frames: Iterable[AtomicFrame]) -> str:
    """Format frames as extended XYZ with full float64 precision, ``info`` and ``columns`` included.

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
    properties = "species:S:1:pos:R:3"
    columns = [frame.positions.detach().numpy()]
    if frame.forces is not None:
        columns.append(frame.forces.detach().numpy())
        properties += ":forces:R:3"
    for name, column in frame.columns.items():
        rows = np.asarray(column).reshape(len(frame), -1)
        kind = _KINDS.get(rows.dtype.kind)
        if kind is not None and _is_plain(name, rows):
            columns.append(rows)
            properties += f":{name}:{kind}:{rows.shape[1]}"
    header.append(f"Properties={properties}")
    if frame.energy is not None:
        header.append(f"energy={frame.energy!r}")
    if frame.stress is not None:
        header.append(f'stress="{_numbers(frame.stress)}"')
    header += [f"{_quoted(key)}={_value(value)}" for key, value in frame.info.items()]
    header.append(f'pbc="{" ".join("T" if axis else "F" for axis in frame.pbc)}"')
    atoms = [
        f"{SYMBOLS[number]} {' '.join(_word(x) for row in rows for x in row.tolist())}\n"
        for number, *rows in zip(frame.numbers.tolist(), *columns, strict=True)
    ]
    return f"{len(frame)}\n{' '.join(header)}\n{''.join(atoms)}"


def _is_plain(name: str, rows: NDArray[Any]) -> bool:
    """Return whether a column can be written; the format quotes neither names nor words."""
    words = [name, *(rows.ravel().tolist() if rows.dtype.kind in "UO" else ())]
    plain = (isinstance(word, str) and re.fullmatch(r"[^\s:=\"']+", word) for word in words)
    return rows.shape[1] > 0 and all(plain)


def _word(x: object) -> str:
    """Format a number to its last digit, a flag as a letter, or a string unchanged."""
    if isinstance(x, bool):
        return "T" if x else "F"
    return x if isinstance(x, str) else repr(x)


def _value(x: object) -> str:
    """Format a value of a comment line; other types become JSON."""
    if isinstance(x, (np.ndarray, np.generic)):
        x = x.tolist()
    if isinstance(x, list) and x and all(isinstance(v, (int, float)) for v in x):
        return f'"{" ".join(map(_word, x))}"'
    if isinstance(x, str):
        return _quoted(x)
    if isinstance(x, (int, float)):
        return _word(x)
    return _quoted("_JSON " + json.dumps(x, default=str))


def _quoted(text: str) -> str:
    """Quote a text unless it is a single word."""
    text = " ".join(text.splitlines())
    if re.fullmatch(r"[\w.+\-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _numbers(values: torch.Tensor) -> str:
    return " ".join(map(repr, values.reshape(-1).tolist()))
