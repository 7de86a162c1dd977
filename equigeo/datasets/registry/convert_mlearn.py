"""Conversion of mlearn's periodic crystals to arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.data_folder import data_folder
from equigeo.datasets.save_arrays import save_arrays

ELEMENTS: Final = {"Cu": 29, "Ge": 32, "Li": 3, "Mo": 42, "Ni": 28, "Si": 14}
"""Atomic numbers."""

PARTS: Final = {"training": "train", "test": "test"}
MAX_BYTES = 256 << 20  # the largest of these files has 10 MB

Progress = Callable[[int, int], None]


def convert_mlearn(
    source: Path,  # holds <element>/{training,test}.json, or `data` with them
    target: Path,
    progress: Progress | None = None,  # called with (done, total) files
) -> list[str]:
    """Convert the published JSON to ``<element>_{train,test}.npz`` and return the file names."""
    root = data_folder(source, lambda folder: any((folder / name).is_dir() for name in ELEMENTS))
    root = root / "data" if (root / "data").is_dir() else root
    found = {
        f"{element}_{short}.npz": (root / element / f"{part}.json", number)
        for element, number in ELEMENTS.items()
        for part, short in PARTS.items()
        if (root / element / f"{part}.json").is_file()
    }
    if not found:
        raise ValueError(f"{source}: found no <element>/test.json; expected {', '.join(ELEMENTS)}")
    # Numbers as in the files: Cartesian positions in angstrom, energies in eV, forces in
    # eV/angstrom, pressure in kbar with an order that depends on the element.
    for k, (name, (path, number)) in enumerate(found.items()):
        save_arrays(target / name, _arrays(path, number))
        if progress is not None:
            progress(k + 1, len(found))
    return list(found)


def _arrays(path: Path, number: int) -> dict[str, NDArray[np.generic]]:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: is larger than {MAX_BYTES} bytes")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return _checked(_joined(entries, number))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read as crystals of mlearn: {error!r}") from error


def _joined(entries: list[dict[str, Any]], number: int) -> dict[str, NDArray[np.generic]]:
    structures = [entry["structure"] for entry in entries]
    outputs = [entry["outputs"] for entry in entries]
    counts = [len(structure["sites"]) for structure in structures]
    positions = [site["xyz"] for structure in structures for site in structure["sites"]]
    forces = [force for output in outputs for force in output["forces"]]
    return {
        "atomic_number": np.array(number, dtype=np.uint8),
        "n_atoms": np.array(counts, dtype=np.int16),
        "atom_offset": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "position": np.array(positions, dtype=np.float64),
        "cell": np.array([x["lattice"]["matrix"] for x in structures], dtype=np.float64),
        "energy": np.array([output["energy"] for output in outputs], dtype=np.float64),
        "force": np.array(forces, dtype=np.float64),
        "virial_stress": np.array([x["virial_stress"] for x in outputs], dtype=np.float64),
        "group": np.array([str(entry["group"]) for entry in entries]),
    }


def _checked(arrays: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    number, atoms = len(arrays["n_atoms"]), len(arrays["position"])
    shapes = {"position": (atoms, 3), "force": (atoms, 3), "cell": (number, 3, 3)}
    shapes |= {"virial_stress": (number, 6)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name].astype(float)).all():
            raise ValueError(f"{name} must be finite and {shape}, got {arrays[name].shape}")
    return arrays
