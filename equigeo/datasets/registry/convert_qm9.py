"""Conversion of QM9's text files to arrays."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.save_arrays import save_arrays

MOLECULES, INCONSISTENT = 133_885, 3_054
SUBSET: Final = 20_000
"""Molecules of the recorded runs, drawn from those whose geometries are consistent."""

PROPERTIES: Final = (
    "RotA_GHz", "RotB_GHz", "RotC_GHz", "Dipole_debye", "Polarizability_bohr3", "HOMO_au",
    "LUMO_au", "HOMO_LUMO_gap_au", "R2_bohr2", "ZPVE_au", "InternalEnergy_0K_au",
    "InternalEnergy_298K_au", "Enthalphy_298K_au", "GibbsFreeEnergy_298K_au",
    "Heatcapacity_Cv_cal_mol_K",
)  # fmt: skip
_NUMBERS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}
_ARCHIVE, _EXCLUDED = "dsgdb9nsd.xyz.tar.bz2", "uncharacterized.txt"
_MOST = 1 << 16  # bytes of the text of a molecule, of which none has more than 4 KiB

Progress = Callable[[int, int], None]


class _Molecule(NamedTuple):
    numbers: NDArray[np.uint8]
    positions: NDArray[np.float32]
    properties: NDArray[np.float64]


def convert_qm9(
    source: Path,  # holds dsgdb9nsd.xyz.tar.bz2 and uncharacterized.txt
    target: Path,
    progress: Progress | None = None,  # called with (done, total) molecules
    total: int = MOLECULES,  # molecules in the archive
) -> list[str]:
    """Convert the 20,000 molecules of the recorded runs and return the file name."""
    for name in (_ARCHIVE, _EXCLUDED):
        if not (source / name).is_file():
            raise ValueError(f"{source}: has no {name}")
    # Molecules that failed the authors' consistency check are excluded.
    excluded = _excluded(source / _EXCLUDED)
    if total == MOLECULES and len(excluded) != INCONSISTENT:
        raise ValueError(f"{source / _EXCLUDED}: lists {len(excluded)}, expected {INCONSISTENT}")
    kept = np.setdiff1d(np.arange(1, total + 1), list(excluded))
    drawn = np.random.RandomState(20240).permutation(len(kept))[:SUBSET]
    chosen = np.sort(kept[drawn])
    found = _read(source / _ARCHIVE, {*chosen.tolist()}, total, progress)
    absent = [number for number in chosen.tolist() if number not in found]
    if absent:
        raise ValueError(f"{source / _ARCHIVE}: has no molecule {absent[0]}")
    save_arrays(target / "qm9_20k.npz", _arrays(chosen, [found[k] for k in chosen.tolist()]))
    return ["qm9_20k.npz"]


def _excluded(path: Path) -> set[int]:
    """Return the numbers in the table of the file, without its nine header and one footer lines."""
    lines = path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")[9:-1]
    try:
        return {int(line.split()[0]) for line in lines}
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path}: cannot be read as QM9's list ({error})") from error


def _read(
    path: Path, chosen: set[int], total: int, progress: Progress | None
) -> dict[int, _Molecule]:
    found = {}
    try:
        for k, text in enumerate(_texts(path)):
            number, molecule = _molecule(text)
            if number in chosen:
                found[number] = molecule
            if progress is not None and (k % 1000 == 999 or k + 1 == total):
                progress(k + 1, total)
    except (tarfile.TarError, EOFError, OSError, ValueError, LookupError) as error:
        raise ValueError(f"{path}: cannot be read as QM9: {error!r}") from error
    return found


def _texts(path: Path) -> Iterator[str]:
    with tarfile.open(path, "r|bz2") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".xyz"):
                if member.size > _MOST:
                    raise ValueError(f"{member.name} has {member.size} bytes")
                stream = archive.extractfile(member)
                yield "" if stream is None else stream.read().decode("ascii")


def _molecule(text: str) -> tuple[int, _Molecule]:
    lines = text.replace("*^", "e").splitlines()  # powers of ten as the authors write them
    atoms = [line.split() for line in lines[2 : 2 + int(lines[0])]]
    _, number, *properties = lines[1].split()
    if len(properties) != len(PROPERTIES):
        raise ValueError(f"molecule {number} has {len(properties)} properties")
    return int(number), _Molecule(
        np.array([_NUMBERS[atom[0]] for atom in atoms], dtype=np.uint8),
        np.array([atom[1:4] for atom in atoms], dtype=np.float64).astype(np.float32),
        np.array(properties, dtype=np.float64),
    )


def _arrays(chosen: NDArray[np.int64], found: list[_Molecule]) -> dict[str, NDArray[np.generic]]:
    counts = [len(molecule.numbers) for molecule in found]
    return {
        "index": chosen.astype(np.int32),
        "n_atoms": np.array(counts, dtype=np.uint8),
        "atom_offset": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "atomic_number": np.concatenate([molecule.numbers for molecule in found]),
        "position": np.concatenate([molecule.positions for molecule in found]),
        "properties": np.stack([molecule.properties for molecule in found]),
        "property_names": np.array(PROPERTIES),
    }
