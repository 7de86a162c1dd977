"""ModelNet10 as point clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from equigeo.datasets.point_clouds import PointClouds
from equigeo.datasets.save_arrays import read_arrays

_FILES = {"train": "modelnet10_train.npz", "test": "modelnet10_test_a.npz"}
_KINDS = {"points": "int16", "label": "uint8", "classes": "text"}
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
    arrays = read_arrays(path, _KINDS, "point clouds")
    try:
        return _clouds(arrays)
    except ValueError as error:
        raise ValueError(f"{path}: cannot be read as point clouds: {error}") from error


def _clouds(arrays: dict[str, NDArray[np.generic]]) -> PointClouds:
    points = torch.from_numpy(arrays["points"].astype(np.float32)) / _LARGEST
    labels = torch.from_numpy(arrays["label"].astype(np.int64))
    return PointClouds(points, labels, tuple(str(name) for name in arrays["classes"].reshape(-1)))
