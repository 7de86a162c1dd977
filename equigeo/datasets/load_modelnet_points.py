"""ModelNet10 as point clouds."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from equigeo.datasets.point_clouds import PointClouds

MAX_BYTES = 1 << 30

_FILES = {"train": "modelnet10_train.npz", "test": "modelnet10_test_a.npz"}
_FIELDS = {"points": np.int16, "label": np.uint8}
_LARGEST = 32767  # coordinates are stored as int16 fractions of half the largest side


def load_modelnet_points(
    folder: str | Path, part: Literal["train", "test"] = "train"
) -> PointClouds:
    """Load one part of ModelNet10, sampled to 1024 points per shape.

    Parameters
    ----------
    folder : path
        Holds ``modelnet10_train.npz`` (3991 shapes, the official training set) and
        ``modelnet10_test_a.npz`` (454 shapes, one half of the official test set).
    part : {"train", "test"}

    Returns
    -------
    PointClouds
        float32, each cloud in a box centered at the origin whose largest side is 2. Any random
        subset of the points is spread evenly.

    References
    ----------
    Wu et al., "3D ShapeNets: a deep representation for volumetric shapes", 2015.

    Examples
    --------
    >>> load_modelnet_points("nowhere")
    Traceback (most recent call last):
        ...
    ValueError: nowhere/modelnet10_train.npz: no such file; ...
    """
    if part not in _FILES:
        raise ValueError(f"part must be train or test, got {part!r}")
    path = Path(folder) / _FILES[part]
    if not path.is_file():
        raise ValueError(
            f"{path}: no such file; expected a folder with {' and '.join(_FILES.values())}"
        )
    try:
        return _clouds(_read(path))
    except (ValueError, EOFError, OSError, LookupError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: cannot be read as point clouds: {error}") from error


def _read(path: Path) -> dict[str, NDArray[np.generic]]:
    # The directory of the archive tells sizes before anything is decompressed.
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES:
        raise ValueError(f"it unpacks to {size} bytes, more than {MAX_BYTES}")
    with np.load(path, allow_pickle=False) as archive:
        missing = {*_FIELDS, "classes"} - set(archive.files)
        if missing:
            raise ValueError(f"it has no array {', '.join(sorted(missing))}")
        arrays = {name: archive[name] for name in (*_FIELDS, "classes")}
    for name, dtype in _FIELDS.items():
        if arrays[name].dtype != dtype:
            raise ValueError(f"{name} must be {np.dtype(dtype)}, got {arrays[name].dtype}")
    if arrays["classes"].dtype.kind != "U":
        raise ValueError(f"classes must be text, got {arrays['classes'].dtype}")
    return arrays


def _clouds(arrays: dict[str, NDArray[np.generic]]) -> PointClouds:
    points = torch.from_numpy(arrays["points"].astype(np.float32)) / _LARGEST
    labels = torch.from_numpy(arrays["label"].astype(np.int64))
    return PointClouds(points, labels, tuple(str(name) for name in arrays["classes"].reshape(-1)))
