"""Loader for revised MD17: molecular dynamics of ten small molecules.

Christensen and von Lilienfeld, "On the role of gradients for machine learning of molecular energies
and forces", 2020. The authors warn against training on more than 1,000 frames: a time series.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.read_frames import build_frames, check_rows, double
from equigeo.datasets.atoms.units import KCAL_PER_MOL
from equigeo.datasets.save_arrays import read_arrays

RMD17_MOLECULES = (
    "aspirin", "azobenzene", "benzene", "ethanol", "malonaldehyde", "naphthalene", "paracetamol",
    "salicylic", "toluene", "uracil",
)  # fmt: skip
_KINDS = {
    "nuclear_charges": "integer",
    "coords": "floating",
    "energies": "floating",
    "forces": "floating",
}


def load_rmd17(
    folder: str | Path, molecule: str, part: Literal["train", "test"] = "train"
) -> AtomicFrames:
    """Load the official 1,000 training or test frames of one molecule (split 01), in eV."""
    if molecule not in RMD17_MOLECULES:
        raise ValueError(f"molecule must be one of {', '.join(RMD17_MOLECULES)}, got {molecule!r}")
    if part not in ("train", "test"):
        raise ValueError(f"part must be train or test, got {part!r}")
    return read_rmd17(Path(folder) / f"rmd17_{molecule}_{part}_01.npz")


def read_rmd17(path: Path) -> AtomicFrames:
    """Read one ``.npz`` file of the revised MD17 layout."""
    arrays = read_arrays(path, _KINDS, "frames of atoms")
    number, atoms = len(arrays["energies"]), len(arrays["nuclear_charges"])
    shape = (number, atoms, 3)
    check_rows(path, arrays, {"coords": shape, "forces": shape, "energies": (number,)})
    numbers = torch.from_numpy(arrays["nuclear_charges"].astype("int64"))
    positions = double(arrays["coords"])
    energies = (double(arrays["energies"]) * KCAL_PER_MOL).tolist()
    forces = double(arrays["forces"]) * KCAL_PER_MOL

    def build(k: int) -> AtomicFrame:
        name = f"{path.name} {k}"
        return AtomicFrame(numbers, positions[k], energy=energies[k], forces=forces[k], name=name)

    return build_frames(path, number, build)
