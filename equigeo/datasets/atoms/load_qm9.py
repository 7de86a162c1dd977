"""Loader for QM9: small organic molecules at equilibrium.

Ramakrishnan et al., "Quantum chemistry structures and properties of 134 kilo molecules", 2014.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import torch

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.read_frames import (
    build_frames,
    check_rows,
    double,
    offsets,
)
from equigeo.datasets.atoms.units import HARTREE
from equigeo.datasets.save_arrays import read_arrays

QM9_FILE: Final = "qm9_20k.npz"
_ENERGIES: Final = {
    "U0": "InternalEnergy_0K_au", "U": "InternalEnergy_298K_au", "H": "Enthalphy_298K_au",
    "G": "GibbsFreeEnergy_298K_au",
}  # fmt: skip
_KINDS = {
    "atomic_number": "integer", "n_atoms": "integer", "atom_offset": "integer",
    "position": "floating", "properties": "floating", "property_names": "text", "index": "integer",
}  # fmt: skip


def load_qm9(path: str | Path, energy: Literal["U0", "U", "H", "G"] = "U0") -> AtomicFrames:
    """Load 20,000 molecules with one of their total energies in eV, from the file or its folder."""
    if energy not in _ENERGIES:
        raise ValueError(f"energy must be one of {', '.join(_ENERGIES)}, got {energy!r}")
    file = Path(path) / QM9_FILE if Path(path).is_dir() else Path(path)
    arrays = read_arrays(file, _KINDS, "frames of atoms")
    number, total = len(arrays["n_atoms"]), len(arrays["position"])
    starts = offsets(file, arrays["n_atoms"], arrays["atom_offset"])
    names = [str(name) for name in arrays["property_names"].reshape(-1)]
    rows = {"position": (total, 3), "atomic_number": (total,), "index": (number,)}
    check_rows(file, arrays, rows | {"properties": (number, len(names))})
    if starts[-1] != total or _ENERGIES[energy] not in names:
        raise ValueError(f"{file}: has no {_ENERGIES[energy]} for every molecule")
    numbers = torch.from_numpy(arrays["atomic_number"].astype("int64"))
    positions = double(arrays["position"])
    hartrees = double(arrays["properties"])[:, names.index(_ENERGIES[energy])]
    energies = (hartrees * HARTREE).tolist()

    def build(k: int) -> AtomicFrame:
        atoms = slice(starts[k], starts[k + 1])
        name = f"QM9 {arrays['index'][k]}"
        return AtomicFrame(numbers[atoms], positions[atoms], energy=energies[k], name=name)

    return build_frames(file, number, build)
