"""Small files in the layouts of the published data sets."""

from functools import partial
from pathlib import Path

import numpy as np

ETHANE = np.array(
    [[0.0, 0, 0], [1.5, 0, 0], [-0.4, 1.0, 0], [-0.4, -0.5, 0.9], [1.9, 1.0, 0], [1.9, -0.5, 0.9]]
)


def rmd17_arrays(number=6, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "nuclear_charges": np.array([6, 6, 1, 1, 1, 1], np.uint8),
        "coords": ETHANE + 0.05 * rng.standard_normal((number, 6, 3)),
        "energies": -1000 + rng.standard_normal(number),
        "forces": 10 * rng.standard_normal((number, 6, 3)),
        "old_indices": np.arange(number),
    }


def _write(folder: Path, name: str, parts, make, changes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, number) in enumerate(parts.items()):
        kept = {k: v for k, v in (make(number, seed) | changes).items() if v is not None}
        np.savez(folder / name.format(part), **kept)
    return folder


def write_rmd17(folder: Path, molecule="ethanol", train=6, test=4, **changes) -> Path:
    name = f"rmd17_{molecule}_{{}}_01.npz"
    return _write(folder, name, {"train": train, "test": test}, rmd17_arrays, changes)


def mlearn_arrays(number=4, seed=0, charge=42):
    rng = np.random.default_rng(seed)
    counts = np.array([2, 1, 2, 2] * number, np.int16)[:number]
    total = int(counts.sum())
    cells = np.broadcast_to(3.2 * np.eye(3), (number, 3, 3)).copy()
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    positions = 0.1 * rng.standard_normal((total, 3))
    positions[[s + 1 for s, n in zip(offset, counts, strict=False) if n == 2]] += 1.6
    return {
        "atomic_number": np.array(charge, np.uint8),
        "n_atoms": counts,
        "atom_offset": offset,
        "position": positions,
        "cell": cells,
        "energy": -10.0 * counts + rng.standard_normal(number),
        "force": rng.standard_normal((total, 3)),
        "virial_stress": 10 * rng.standard_normal((number, 6)),
        "group": np.array(["Elastic"] * number),
    }


def write_mlearn(folder: Path, element="Mo", train=6, test=4, charge=42, **changes) -> Path:
    arrays = partial(mlearn_arrays, charge=charge)
    return _write(folder, f"{element}_{{}}.npz", {"train": train, "test": test}, arrays, changes)


def write_qm9(folder: Path, number=20, **changes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.full(number, 3, np.uint8)
    water = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]], np.float32)
    names = ["ZPVE_au", "InternalEnergy_0K_au", "InternalEnergy_298K_au"]
    arrays = {
        "index": np.arange(number, dtype=np.int32),
        "n_atoms": counts,
        "atom_offset": np.arange(0, 3 * number + 1, 3, dtype=np.int32),
        "atomic_number": np.tile([8, 1, 1], number).astype(np.uint8),
        "position": np.tile(water, (number, 1)),
        "properties": np.arange(3.0 * number).reshape(number, 3),
        "property_names": np.array(names),
    }
    np.savez(folder / "qm9_20k.npz", **(arrays | changes))
    return folder


XYZ = (
    '2\nProperties=species:S:1:pos:R:3:forces:R:3 energy={energy} pbc="F F F"\n'
    "H 0 0 0 {force} 0 0\nH {length} 0 0 -0.5 0 0\n"
)


def xyz_frame(energy="-31.5", force="0.5", length="0.74") -> str:
    return XYZ.format(energy=energy, force=force, length=length)
