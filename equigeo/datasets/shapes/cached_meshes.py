"""Cache of generated data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.save_arrays import save_arrays
from equigeo.mesh import TriangleMesh

TRAIN_SHARE: Final = 0.8  # of the instances of a class, the first ones
_FACES = (200, 2000)

_DAMAGE = (OSError, ValueError, TypeError, AttributeError, LookupError, EOFError, BadZipFile)

Arrays = dict[str, NDArray[np.generic]]
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def check_arguments(
    seed: int,
    faces: int,  # even, 200 to 2000
    **instances: int,  # counts by name, at least 2
) -> None:
    """Raise unless the arguments of a generator are in range."""
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    for name, number in instances.items():
        if number < 2:
            raise ValueError(f"{name} must be at least 2, got {number}")
    if faces % 2 or not _FACES[0] <= faces <= _FACES[1]:
        raise ValueError(f"faces must be even, from {_FACES[0]} to {_FACES[1]}, got {faces}")


def cached_arrays(
    name: str,
    cache: Path | None,  # default: `cache_folder()`; failed writes are logged
    generate: Callable[[], Arrays],
    use: Callable[[Arrays], _T],  # raises if the arrays are damaged
) -> _T:
    """Load arrays from the cache, or generate and store them, and return ``use(arrays)``."""
    path = (cache_folder() if cache is None else cache) / name
    try:
        # opened here: numpy leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return use({key: stored[key] for key in stored.files})
    except FileNotFoundError:
        pass
    except _DAMAGE as error:
        _log.warning("generating data again, %s is damaged: %s", path, error)
    arrays = generate()
    result = use(arrays)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        _log.warning("cannot cache generated data in %s: %s", path, error)
    return result


def join_meshes(
    meshes: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]],  # of as many faces each
) -> Arrays:
    """Join vertices and faces of meshes in the stored layout."""
    return {
        "vertices": np.concatenate([vertices for vertices, _ in meshes]),
        "num_vertices": np.array([len(vertices) for vertices, _ in meshes]),
        "faces": np.stack([faces for _, faces in meshes]).astype(np.int32),
    }


def split_meshes(
    arrays: Arrays,  # of ``join_meshes``
    number: int,
    faces: int,  # per mesh
) -> list[TriangleMesh]:
    """Split joined arrays into meshes."""
    if arrays["faces"].shape != (number, faces, 3):
        raise ValueError(f"faces of shape {arrays['faces'].shape}")
    vertices = torch.from_numpy(arrays["vertices"])
    parts = vertices.split(arrays["num_vertices"].tolist())
    return [
        TriangleMesh(part.clone(), torch.from_numpy(triangles).long())
        for part, triangles in zip(parts, arrays["faces"], strict=True)
    ]
