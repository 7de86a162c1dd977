"""Conversion of published files to the formats that the library reads."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.archive import sha256_of
from equigeo.datasets.cache import save_arrays
from equigeo.datasets.class_folders import data_folder
from equigeo.datasets.digits.readers import load_mnist
from equigeo.datasets.meshes import load_mesh_folder
from equigeo.datasets.registry.catalogue import PRINCETON_CLASSES, DataFile, DataSet, find_data_set
from equigeo.datasets.registry.download import record_checksums
from equigeo.datasets.registry.modelnet10 import Progress, convert_modelnet10
from equigeo.datasets.segmentation.folder import load_segmentation_folder
from equigeo.datasets.tours import load_tsplib

ELEMENTS: Final = {"Cu": 29, "Ge": 32, "Li": 3, "Mo": 42, "Ni": 28, "Si": 14}
"""Atomic numbers."""
PARTS: Final = {"training": "train", "test": "test"}
MAX_BYTES = 256 << 20  # the largest of these files has 10 MB
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
COSEG: Final = tuple(f"coseg_{name}" for name in find_data_set("coseg").collections)
_TRAINED = 15  # of the 20 shapes of a class of the Princeton benchmark
_MISSING = 13  # the class of SHREC 2007 that the benchmark left out
_BLOCK = 20  # shapes of a class
_Conversion = Callable[[DataSet, Path, Path, "Progress | None"], "list[str]"]


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
        save_arrays(target / name, _mlearn_arrays(path, number))
        if progress is not None:
            progress(k + 1, len(found))
    return list(found)


def _mlearn_arrays(path: Path, number: int) -> dict[str, NDArray[np.generic]]:
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
    save_arrays(target / "qm9_20k.npz", _qm9_arrays(chosen, [found[k] for k in chosen.tolist()]))
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


def _qm9_arrays(
    chosen: NDArray[np.int64], found: list[_Molecule]
) -> dict[str, NDArray[np.generic]]:
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


def convert_data_set(
    entry: DataSet,
    source: Path,  # file or folder that `entry.manual` describes
    progress: Progress | None = None,  # called with (done, total)
) -> list[str]:
    """Validate and convert manually downloaded files into the folder of a data set."""
    if entry.name not in _CONVERSIONS:
        known = ", ".join(_CONVERSIONS)
        raise ValueError(
            f"{entry.name} is used as it is published and has no conversion, only {known} have; "
            f"by hand: {entry.manual}"
        )
    if not source.exists():
        raise ValueError(f"{source}: no such file or folder")
    entry.path.mkdir(parents=True, exist_ok=True)
    # Nothing is written to the folder before everything is valid.
    with tempfile.TemporaryDirectory(dir=entry.path, prefix=".partial-") as temporary:
        made = Path(temporary)
        names = _CONVERSIONS[entry.name](entry, source, made, progress)
        digests = {name: sha256_of(made / name) for name in names if (made / name).is_file()}
        for name in names:
            target = entry.path / name
            if target.is_dir():
                shutil.rmtree(target)
            (made / name).replace(target)
    record_checksums(entry.path, digests)
    return names


def _meshes(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy an archive of labeled meshes."""
    dataset = load_mesh_folder(source)
    if entry.name == "shrec11":
        faces = {mesh.num_faces for mesh in dataset.meshes}
        if (len(dataset), dataset.num_classes, faces) != (600, 30, {500}):
            raise ValueError(
                f"{source}: expected 600 meshes of 30 classes with 500 faces each, got "
                f"{len(dataset)} of {dataset.num_classes}"
            )
    return _adopt(entry, source, made)


def _segmented(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy an archive of meshes with labeled edges."""
    if entry.name == "coseg":
        for name in COSEG:
            load_segmentation_folder(coseg_folder(source, name))
    else:
        load_segmentation_folder(source)
    return _adopt(entry, source, made)


def coseg_folder(source: Path, name: str) -> Path:
    """Return one of the three COSEG collections in an archive or folder."""
    root = data_folder(source, lambda folder: (folder / name).is_dir())
    if not (root / name).is_dir():
        raise ValueError(f"{source}: has no folder {name}; expected {', '.join(COSEG)}")
    return root / name


def _adopt(entry: DataSet, source: Path, made: Path) -> list[str]:
    """Copy a validated archive under its published name."""
    (file,) = entry.files
    if not source.is_file():
        raise ValueError(
            f"{source}: is right, and a folder: give it to --data as it is, or pass the archive"
        )
    return [_copied(file, source, made)]


def _copied(file: DataFile, source: Path, made: Path) -> str:
    digest = sha256_of(source)
    if file.sha256 not in (None, digest):
        raise ValueError(
            f"{source}: can be read, but is not the published file (SHA-256 {digest}, expected "
            f"{file.sha256}); give it to --data as it is"
        )
    shutil.copyfile(source, made / file.name)
    return file.name


def _digits(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy the four files of MNIST."""
    for part in ("train", "test"):
        load_mnist(source, part)
    absent = [file.name for file in entry.files if not (source / file.name).is_file()]
    if absent:
        raise ValueError(f"{source}: has no {absent[0]}; expected the files as published, packed")
    return [_copied(file, source / file.name, made) for file in entry.files]


def _princeton(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Build a labeled collection from numbered models; the last by checksum are for training."""
    folder = data_folder(source, bool)
    found = {path.stem: path for path in sorted(folder.rglob("off/*.off"))}
    classes = [k for k in range(len(PRINCETON_CLASSES) + 1) if k != _MISSING]
    for name, block in zip(PRINCETON_CLASSES, classes, strict=True):
        numbers = range(_BLOCK * block + 1, _BLOCK * (block + 1) + 1)
        absent = [number for number in numbers if str(number) not in found]
        if absent:
            raise ValueError(f"{source}: has no off/{absent[0]}.off; expected 1 to 260, 281 to 400")
        paths = [found[str(number)] for number in numbers]
        paths.sort(key=lambda path: hashlib.sha256(path.read_bytes()).hexdigest())
        for k, path in enumerate(paths):
            part = "train" if k >= len(paths) - _TRAINED else "test"
            copy = made / "meshes" / name / part / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    load_mesh_folder(made / "meshes")
    return ["meshes"]


def _tours(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy the instances, decompressed, with the best known lengths."""
    folder = data_folder(source, bool)
    target = made / "instances"
    target.mkdir()
    for path in sorted(folder.rglob("*.tsp")) + sorted(folder.rglob("solutions")):
        shutil.copyfile(path, target / path.name)
    for path in sorted(folder.rglob("*.tsp.gz")):
        with gzip.open(path) as packed, (target / path.stem).open("wb") as file:
            shutil.copyfileobj(packed, file)
    load_tsplib(target)
    return ["instances"]


_CONVERSIONS: Final[dict[str, _Conversion]] = {
    "shrec11": _meshes,
    "cubes": _meshes,
    "coseg": _segmented,
    "human_seg": _segmented,
    "princeton": _princeton,
    "mlearn": lambda _, *arguments: convert_mlearn(*arguments),
    "modelnet10": lambda _, *arguments: convert_modelnet10(*arguments),
    "mnist": _digits,
    "qm9": lambda _, *arguments: convert_qm9(*arguments),
    "tsplib": _tours,
}
