"""Generated meshes as arrays in the cache."""

from __future__ import annotations

import logging
from collections.abc import Callable
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


def check_arguments(seed: int, faces: int, **instances: int) -> None:
    """Refuse what meshes cannot be generated from.

    Parameters
    ----------
    seed : int
        Not negative.
    faces : int
        Even, from 200 to 2000.
    **instances : int
        Numbers of which a part is for training and the others for tests: at least 2.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    for name, number in instances.items():
        if number < 2:
            raise ValueError(f"{name} must be at least 2, got {number}")
    if faces % 2 or not _FACES[0] <= faces <= _FACES[1]:
        raise ValueError(f"faces must be even, from {_FACES[0]} to {_FACES[1]}, got {faces}")


def cached_arrays(
    name: str,
    cache: Path | None,
    generate: Callable[[], Arrays],
    use: Callable[[Arrays], _T],
) -> _T:
    """Use arrays from the cache, or generate and store them.

    Parameters
    ----------
    name : str
        Of the file.
    cache : Path, optional
        Its folder, that of ``cache_folder`` by default. One that cannot be written is logged.
    generate : callable
        Makes the arrays where the file is absent or damaged.
    use : callable
        Makes of them what is returned; fails where they are not what was written.

    Returns
    -------
    object
        From ``use``.
    """
    path = (cache_folder() if cache is None else cache) / name
    try:
        # opened here: numpy leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return use({key: stored[key] for key in stored.files})
    except FileNotFoundError:
        pass
    except _DAMAGE as error:
        _log.warning("generating shapes again, %s is damaged: %s", path, error)
    arrays = generate()
    result = use(arrays)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        _log.warning("cannot cache generated shapes in %s: %s", path, error)
    return result


def split_meshes(arrays: Arrays, number: int, faces: int) -> list[TriangleMesh]:
    """Take the joined meshes apart.

    Parameters
    ----------
    arrays : dict of str to array
        ``vertices`` of all meshes, ``num_vertices`` of each and ``faces``, (meshes, faces, 3).
    number, faces : int
        Meshes, and faces of each.

    Returns
    -------
    list of TriangleMesh
        The meshes.

    Raises
    ------
    LookupError
        If an array is missing.
    ValueError
        If one has another shape, or indices do not fit.
    """
    if arrays["faces"].shape != (number, faces, 3):
        raise ValueError(f"faces of shape {arrays['faces'].shape}")
    vertices = torch.from_numpy(arrays["vertices"])
    parts = vertices.split(arrays["num_vertices"].tolist())
    return [
        TriangleMesh(part.clone(), torch.from_numpy(triangles).long())
        for part, triangles in zip(parts, arrays["faces"], strict=True)
    ]
