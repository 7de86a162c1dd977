"""Loading of a known data set by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from equigeo.datasets.atoms.atomic_split import load_atomic_split, qm9_split
from equigeo.datasets.digits.load_digits import load_digits
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.load_modelnet_points import load_modelnet_points
from equigeo.datasets.registry.convert_data_set import coseg_folder
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.registry.data_sets import find_data_set
from equigeo.datasets.segmentation.load_segmentation_folder import load_segmentation_folder
from equigeo.datasets.tours.load_tsplib import load_tsplib


def load(name: str, **options: Any) -> Any:
    """Load a data set that ``equigeo data fetch`` or ``convert`` has installed.

    Parameters
    ----------
    name : str
        Name in ``equigeo data list``.
    **options
        Options of the reader: ``part`` of ``"modelnet10"`` (``"train"`` or ``"test"``), ``split``
        of ``"mnist"`` (``"train"``, ``"validation"`` or ``"test"``), ``collection`` of ``"coseg"``
        (``"aliens"``, ``"chairs"`` or ``"vases"``), ``most`` cities of ``"tsplib"``, ``strict`` of
        meshes, ``subset`` of ``"rmd17"`` (a molecule), ``"mlearn"`` (an element) or ``"3bpa"``
        (``"3BPA"``, ``"acac"`` or ``"ethanol"``), ``energy`` of ``"qm9"`` (``"U0"``, ``"U"``,
        ``"H"`` or ``"G"``).

    Returns
    -------
    Any
        Result of `load_mesh_folder`, `load_segmentation_folder`, `load_modelnet_points`,
        `load_digits`, `load_tsplib` or `load_atomic_split`.

    Raises
    ------
    ValueError
        If the name is unknown or files are missing; the message says how to get them.

    Examples
    --------
    >>> load("nothing")
    Traceback (most recent call last):
        ...
    ValueError: data set must be one of shrec11, cubes, ...; got 'nothing'
    """
    entry = find_data_set(name)
    if not entry.is_present:
        raise ValueError(f"{entry.path}: {name} is not there; {how_to_get(entry)}")
    if name not in _READERS:
        raise ValueError(f"{name} has no reader here; its files are in {entry.path}")
    return _READERS[name](entry.location, **options)


def how_to_get(entry: DataSet) -> str:
    """Return the command, or the manual instructions, that install a data set."""
    if entry.is_fetchable:
        more = ""
        if entry.made:
            more = f", then: equigeo data convert {entry.name} {entry.fetched}"
        return f"get it by: equigeo data fetch {entry.name}{more}"
    return f"get it by hand: {entry.manual}"


def _coseg(path: Path, collection: str, **options: Any) -> Any:
    return load_segmentation_folder(coseg_folder(path, f"coseg_{collection}"), **options)


_READERS: Final[dict[str, Callable[..., Any]]] = {
    "shrec11": load_mesh_folder,
    "cubes": load_mesh_folder,
    "coseg": _coseg,
    "human_seg": load_segmentation_folder,
    "princeton": load_mesh_folder,
    "modelnet10": load_modelnet_points,
    "mnist": lambda path, split="train", **options: load_digits(path, split, **options),
    "tsplib": load_tsplib,
    **{
        name: lambda path, subset="": load_atomic_split(path, subset)
        for name in ("rmd17", "3bpa", "mlearn")
    },
    "qm9": qm9_split,
}
