"""Loader for mlearn: crystals of one element with energies, forces and stresses.

Zuo et al., "Performance and cost assessment of machine learning interatomic potentials", 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.chemical_symbols import HEAVIEST, SYMBOLS
from equigeo.datasets.atoms.read_frames import (
    build_frames,
    check_rows,
    double,
    offsets,
)
from equigeo.datasets.atoms.units import KILOBAR
from equigeo.datasets.save_arrays import read_arrays

# Where the six numbers of ``virial_stress`` stand in the matrix, xx yy zz xy and then, by element,
# yz xz or xz yz. Found by the work along pairs of strained cells, and for Cu and Ni by single
# shears; the shear labels of Li contradict its energies in any order.
_DIAGONAL: Final = ((0, 0), (1, 1), (2, 2), (0, 1))
_YZ_XZ: Final = (*_DIAGONAL, (1, 2), (0, 2))
_XZ_YZ: Final = (*_DIAGONAL, (0, 2), (1, 2))
STRESS_ORDER: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "Li": _YZ_XZ, "Si": _YZ_XZ, "Ge": _YZ_XZ, "Mo": _XZ_YZ, "Cu": _XZ_YZ, "Ni": _XZ_YZ,
}  # fmt: skip
_KINDS = {
    "atomic_number": "integer", "n_atoms": "integer", "atom_offset": "integer",
    "position": "floating", "cell": "floating", "energy": "floating", "force": "floating",
    "virial_stress": "floating", "group": "text",
}  # fmt: skip


def load_mlearn(
    folder: str | Path, element: str, part: Literal["train", "test"] = "train"
) -> AtomicFrames:
    """Load the frames of one element, with energies, forces and stresses in eV and angstrom."""
    if element not in STRESS_ORDER:
        raise ValueError(f"element must be one of {', '.join(STRESS_ORDER)}, got {element!r}")
    if part not in ("train", "test"):
        raise ValueError(f"part must be train or test, got {part!r}")
    return read_mlearn(Path(folder) / f"{element}_{part}.npz")


def read_mlearn(path: Path) -> AtomicFrames:
    """Read one ``.npz`` file of the converted mlearn layout."""
    arrays = read_arrays(path, _KINDS, "frames of atoms")
    number, total = len(arrays["n_atoms"]), len(arrays["position"])
    starts = offsets(path, arrays["n_atoms"], arrays["atom_offset"])
    rows = {"position": (total, 3), "force": (total, 3), "cell": (number, 3, 3)}
    rows |= {"energy": (number,), "virial_stress": (number, 6), "group": (number,)}
    check_rows(path, arrays, rows | {"atomic_number": ()})
    if starts[-1] != total:
        raise ValueError(f"{path}: has {total} positions for {starts[-1]} atoms")
    charge = int(arrays["atomic_number"])
    element = SYMBOLS[charge] if 0 < charge <= HEAVIEST else str(charge)
    if element not in STRESS_ORDER:
        raise ValueError(
            f"{path}: the order of its stress is known for {', '.join(STRESS_ORDER)}, "
            f"got atomic number {charge}"
        )
    positions, cells, forces = (double(arrays[n]) for n in ("position", "cell", "force"))
    energies = double(arrays["energy"]).tolist()
    stresses = stress_matrices(arrays["virial_stress"], element)

    def build(k: int) -> AtomicFrame:
        atoms = slice(starts[k], starts[k + 1])
        return AtomicFrame(
            numbers=torch.full((starts[k + 1] - starts[k],), charge),
            positions=positions[atoms],
            cell=cells[k],
            pbc=(True, True, True),
            energy=energies[k],
            forces=forces[atoms],
            stress=stresses[k],
            name=f"{path.name} {k} {arrays['group'][k]}",
        )

    return build_frames(path, number, build)


def stress_matrices(
    kilobars: NDArray[np.generic],  # (frames, 6), positive in compression
    element: str,  # key of STRESS_ORDER
) -> Tensor:
    """Convert pressure in kbar to stress in eV/angstrom^3, (frames, 3, 3), positive in tension."""
    values = -double(kilobars) * KILOBAR
    stress = values.new_zeros(len(values), 3, 3)
    for k, (i, j) in enumerate(STRESS_ORDER[element]):
        stress[:, i, j] = stress[:, j, i] = values[:, k]
    return stress
