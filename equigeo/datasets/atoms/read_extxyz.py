"""Frames in extended XYZ, read through ASE."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.read_frames import MAX_BYTES, build_frames, double

EXTXYZ_SUFFIXES: Final = (".xyz", ".extxyz")
_SHOWN = 200  # characters of what was wrong
# What a comment line may call the units of this library, in lower case.
_OURS = {
    "ev", "å", "angstrom", "ang", "a", "ev/å", "ev/angstrom", "ev/ang", "ev/a", "ev/å^3",
    "ev/angstrom^3", "ev/ang^3", "ev/a^3", "metal", "ase",
}  # fmt: skip


def read_extxyz(
    path: str | Path, *, energy: str = "energy", forces: str = "forces", stress: str = "stress"
) -> AtomicFrames:
    """Read all frames of an extended XYZ file, in eV and angstrom.

    A stress counts where all three axes are periodic; without one, a ``virial`` in eV gives it.
    Lattice vectors of axes that are not periodic mean nothing.

    Parameters
    ----------
    path : path
        A ``.xyz`` or ``.extxyz`` file.
    energy, forces, stress : str
        What the file calls them.

    Returns
    -------
    AtomicFrames
        A frame has the labels that the file has for it.

    Raises
    ------
    ImportError
        If ASE is not installed.
    ValueError
        If the file is missing or damaged, says that its units are others, or a frame has numbers
        that are not finite, no cell on a periodic axis, or atoms on top of one another; the message
        names file and frame, counted from 0.

    Examples
    --------
    >>> read_extxyz("nowhere.xyz")
    Traceback (most recent call last):
        ...
    ValueError: nowhere.xyz: no such file
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{file}: has more than {MAX_BYTES} bytes; split it")
    _check_counts(file)
    structures = list(_structures(file))
    names = (energy, forces, stress)

    def build(k: int) -> AtomicFrame:
        return _frame(structures[k], names, f"{file.name} {k}")

    return build_frames(file, len(structures), build)


_COLUMNS = re.compile(rb"""Properties=["']?([\w:]+)""")


def _check_counts(file: Path) -> None:
    """Refuse numbers of atoms and columns that the file has no bytes for: ASE believes them."""
    with file.open("rb") as lines:
        for frame in itertools.count():
            first = lines.readline().strip()
            if not first.isdigit():  # the end, or what ASE refuses
                return
            atoms, comment = int(first[:20]), lines.readline()
            declared = _COLUMNS.search(comment)
            numbers = declared[1].split(b":")[2::3] if declared else []
            columns = sum(int(n[:20]) for n in numbers if n.isdigit())
            for k in range(atoms):
                line = lines.readline()
                if not line:
                    raise ValueError(
                        f"{file}: frame {frame}: announces {first[:20].decode()} atoms, has {k}"
                    )
                if 2 * columns > len(line.rstrip()) + 1:  # a blank between each two
                    raise ValueError(f"{file}: frame {frame}: has fewer than {columns} columns")


def _structures(file: Path) -> Iterator[Any]:
    try:
        from ase.io import iread
    except ImportError as error:
        raise ImportError("extended XYZ needs ASE: pip install 'ase>=3.23'") from error
    # An "@" in a name is no index.
    found = iread(file, index=":", format="extxyz", do_not_split_by_at_sign=True)
    k = 0
    while True:
        try:
            structure = next(found)
        except StopIteration:
            return
        except Exception as error:  # what a parser of text raises is anything
            text = " ".join(str(error).split())[:_SHOWN]
            raise ValueError(f"{file}: frame {k}: cannot be read ({text})") from error
        yield structure
        k += 1


def _frame(structure: Any, names: tuple[str, str, str], name: str) -> AtomicFrame:
    _check_units(structure.info)
    energy, forces, stress = (_label(structure, label) for label in names)
    pbc = tuple(bool(axis) for axis in structure.pbc)
    cell = double(np.asarray(structure.cell[:]))
    return AtomicFrame(
        numbers=torch.from_numpy(structure.numbers.astype(np.int64)),
        positions=double(structure.positions),
        cell=cell if bool(cell.any()) else None,
        pbc=pbc,  # type: ignore[arg-type]
        energy=None if energy is None else float(energy),
        forces=None if forces is None else double(np.asarray(forces)),
        stress=_stress(structure, stress) if all(pbc) else None,
        name=name,
    )


def _label(structure: Any, name: str) -> Any:
    """Find a label; ASE since 3.23 moves those that it knows into a calculator."""
    known = {} if structure.calc is None else structure.calc.results
    for place in (known, structure.info, structure.arrays):
        if name in place:
            return place[name]
    return None


def _stress(structure: Any, stress: Any) -> Tensor | None:
    """Give a stress as a matrix: from six numbers (Voigt), from nine, or from a virial."""
    if stress is None:
        virial = structure.info.get("virial")
        if virial is None:
            return None
        stress = -np.asarray(virial, dtype=np.float64) / abs(np.linalg.det(structure.cell[:]))
    values = np.asarray(stress, dtype=np.float64)
    if values.size == 6:
        xx, yy, zz, yz, xz, xy = values.reshape(6)
        values = np.array([xx, xy, xz, xy, yy, yz, xz, yz, zz])
    if values.size != 9:
        raise ValueError(f"a stress has 6 or 9 numbers, got {values.size}")
    return torch.from_numpy(values.reshape(3, 3).copy())


def _check_units(info: dict[str, Any]) -> None:
    """Refuse a comment line that speaks of other units."""
    for key, value in info.items():
        if "unit" in key.lower() and str(value).lower() not in _OURS:
            raise ValueError(
                f"units must be eV and angstrom, got {key!r:.80} = {str(value)!r:.80}; "
                "convert the file"
            )
