"""Reader for point clouds in class folders."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from equigeo.datasets.class_folders import ClassFolders
from equigeo.datasets.point_clouds import PointClouds
from equigeo.datasets.read_cloud import CLOUD_SUFFIXES, Points, read_cloud

MOST_POINTS: Final = (
    1024  # points that are kept of every cloud where fewer are asked for, to draw from
)


def load_cloud_folder(
    path: str | os.PathLike[str], points: int = MOST_POINTS
) -> tuple[PointClouds, PointClouds]:
    """Load labelled point clouds laid out as ``<class>/{train,test}/<file>``.

    Files are those of `equigeo.datasets.read_cloud`; surfaces are sampled. All clouds are cut to
    the size of the smallest one, at most the larger of ``points`` and 1024, by a random choice that
    is the same for every call.

    Parameters
    ----------
    path : path-like
        Folder or archive, as in `load_mesh_folder`.
    points : int
        Least number of points per cloud.

    Returns
    -------
    train, test : PointClouds
        float32, each cloud in a box centered at the origin whose largest side is 2.

    Raises
    ------
    ValueError
        If the layout is wrong or files are unusable; the message counts them and names the first.

    Examples
    --------
    >>> load_cloud_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    folders = ClassFolders.find(Path(path), CLOUD_SUFFIXES, "cloud")
    wanted = max(points, MOST_POINTS)
    clouds = folders.load(lambda member: _read(member.path, wanted, points), ValueError)
    kept = min(wanted, *map(len, clouds))
    names = map(folders.name, folders.members)
    tensors = [_normalized(_drawn(x, kept, name)) for x, name in zip(clouds, names, strict=True)]
    labels = torch.tensor([member.label for member in folders.members])
    in_train = torch.tensor([member.in_train for member in folders.members])
    for part, chosen in (("train", in_train), ("test", ~in_train)):
        if not bool(chosen.any()):
            raise ValueError(f"{path}: no class has a file in {part}")
    stacked = torch.stack(tensors)
    return (
        PointClouds(stacked[in_train], labels[in_train], folders.classes),
        PointClouds(stacked[~in_train], labels[~in_train], folders.classes),
    )


def normalized_cloud(points: Points, number: int, name: str = "") -> Tensor:
    """Sample points and scale them into the box of side 2, as ``load_cloud_folder`` does."""
    return _normalized(_drawn(_with_extent(points), number, name))


def _read(path: Path, wanted: int, least: int) -> Points:
    found = _with_extent(read_cloud(path, wanted))
    if len(found) < least:
        raise ValueError(f"has {len(found)} points, expected {least}; ask for fewer")
    return found


def _with_extent(points: Points) -> Points:
    if not (np.ptp(points, axis=0).max() > 0):
        raise ValueError("has all its points in one place")
    return points


def _drawn(points: Points, number: int, name: str) -> Points:
    """Draw points without replacement, with a random stream per file."""
    if len(points) <= number:
        return points
    seed = np.random.SeedSequence([0, zlib.crc32(name.encode(errors="surrogateescape"))])
    return points[np.random.default_rng(seed).permutation(len(points))[:number]]


def _normalized(points: Points) -> Tensor:
    low, high = points.min(axis=0), points.max(axis=0)
    half = (high - low).max() / 2 or 1.0  # of those that were drawn, all may be one
    return torch.from_numpy((points - (low + high) / 2) / half).float()
