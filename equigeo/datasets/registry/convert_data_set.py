"""Conversion of manually downloaded files to the formats that the library reads."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from equigeo.datasets.data_folder import data_folder
from equigeo.datasets.digits.load_mnist import load_mnist
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.registry.checksums import record_checksums
from equigeo.datasets.registry.convert_mlearn import convert_mlearn
from equigeo.datasets.registry.convert_modelnet10 import convert_modelnet10
from equigeo.datasets.registry.convert_qm9 import convert_qm9
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.registry.data_sets import PRINCETON_CLASSES, find_data_set
from equigeo.datasets.segmentation.load_segmentation_folder import load_segmentation_folder
from equigeo.datasets.tours.load_tsplib import load_tsplib
from equigeo.datasets.unpack_archive import sha256_of

Progress = Callable[[int, int], None]

COSEG: Final = tuple(f"coseg_{name}" for name in find_data_set("coseg").collections)
_TRAINED = 15  # of the 20 shapes of a class of the Princeton benchmark
_MISSING = 13  # the class of SHREC 2007 that the benchmark left out
_BLOCK = 20  # shapes of a class


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
            _replace(made / name, entry.path / name)
    record_checksums(entry.path, digests)
    return names


def _replace(made: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    made.replace(target)


def _meshes(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy an archive of labelled meshes."""
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
    """Copy an archive of meshes with labelled edges."""
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
    return [_copied(file.name, file.sha256, source, made)]


def _copied(name: str, sha256: str | None, source: Path, made: Path) -> str:
    digest = sha256_of(source)
    if sha256 is not None and digest != sha256:
        raise ValueError(
            f"{source}: can be read, but is not the published file (SHA-256 {digest}, expected "
            f"{sha256}); give it to --data as it is"
        )
    shutil.copyfile(source, made / name)
    return name


def _digits(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Copy the four files of MNIST."""
    for part in ("train", "test"):
        load_mnist(source, part)
    absent = [file.name for file in entry.files if not (source / file.name).is_file()]
    if absent:
        raise ValueError(f"{source}: has no {absent[0]}; expected the files as published, packed")
    return [_copied(file.name, file.sha256, source / file.name, made) for file in entry.files]


def _princeton(entry: DataSet, source: Path, made: Path, progress: Progress | None) -> list[str]:
    """Build a labelled collection from numbered models; the last by checksum are for training."""
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


_Conversion = Callable[[DataSet, Path, Path, "Progress | None"], "list[str]"]
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
