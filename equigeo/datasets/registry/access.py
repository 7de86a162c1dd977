"""Loading, download and verification of known data sets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from equigeo.datasets.archive import sha256_of
from equigeo.datasets.atoms.published import load_atomic_split, qm9_split
from equigeo.datasets.clouds import load_modelnet_points
from equigeo.datasets.digits.readers import load_digits
from equigeo.datasets.meshes import load_mesh_folder
from equigeo.datasets.registry.catalogue import DATA_SETS, DataFile, DataSet, find_data_set
from equigeo.datasets.registry.convert import coseg_folder
from equigeo.datasets.registry.download import (
    DownloadError,
    Progress,
    download,
    read_checksums,
    record_checksums,
)
from equigeo.datasets.segmentation.folder import load_segmentation_folder
from equigeo.datasets.tours import load_tsplib

_MARGIN = 64 << 20  # bytes that a disk should still have afterwards
Started = Callable[[DataFile], "Progress | None"]


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
        If the name is unknown or files are missing; the message explains how to get them.

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
    if not entry.is_fetchable:
        return f"get it by hand: {entry.manual}"
    more = f", then: equigeo data convert {entry.name} {entry.fetched}" if entry.made else ""
    return f"get it by: equigeo data fetch {entry.name}{more}"


_READERS: Final[dict[str, Callable[..., Any]]] = {
    "shrec11": load_mesh_folder,
    "cubes": load_mesh_folder,
    "coseg": lambda path, collection, **options: load_segmentation_folder(
        coseg_folder(path, f"coseg_{collection}"), **options
    ),
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


def find_data(
    given: str,  # an existing path has precedence over a name
    task: str,  # task that the data are for
) -> Path:
    """Return the absolute path of a file, folder or known data set such as "coseg/vases"."""
    path = Path(given)
    if path.exists():
        return path.resolve()
    name, slash, collection = given.partition("/")
    for entry in DATA_SETS:
        if entry.name == name and (entry.collections or not slash):
            return _location(entry, task, collection).resolve()
    return path.resolve()


def _location(entry: DataSet, task: str, collection: str) -> Path:
    problem = f"{entry.name}: no such file or folder"
    if task not in entry.tasks:
        tasks = " and ".join(entry.tasks)
        raise ValueError(f"{problem}, and the data set {entry.name} is for the task {tasks}")
    if not entry.is_present:
        raise ValueError(f"{problem}; {how_to_get(entry)}")
    if not entry.collections:
        return entry.location
    if collection not in entry.collections:
        names = ", ".join(f"{entry.name}/{one}" for one in entry.collections)
        raise ValueError(f"the data set {entry.name} has several collections: name one of {names}")
    return coseg_folder(entry.location, f"{entry.name}_{collection}")


def fetch_data_set(
    entry: DataSet,
    started: Started | None = None,  # called per file; returns its progress callback
) -> list[str]:
    """Download the missing files of a data set and return their names."""
    if not entry.is_fetchable:
        raise DownloadError(f"{entry.name} cannot be fetched by a program; {_by_hand(entry)}")
    if entry.made and entry.is_present:  # of what was fetched nothing is needed any more
        return []
    missing = [file for file in entry.files if not (entry.path / file.name).is_file()]
    _check_space(entry, missing)
    fetched = []
    for file in missing:
        known = read_checksums(entry.path).get(file.name)
        wanted = replace(file, sha256=file.sha256 or known)
        progress = started(file) if started is not None else None
        try:
            digest = download(wanted, entry.path / file.name, progress)
        except DownloadError as error:
            raise DownloadError(f"{error}; or {_by_hand(entry)}") from error
        # An unpublished checksum is recorded at the first download and required afterwards.
        if file.sha256 is None:
            record_checksums(entry.path, {file.name: digest})
        fetched.append(file.name)
    return fetched


def _by_hand(entry: DataSet) -> str:
    is_converted = "equigeo data convert" in entry.manual
    where = "" if is_converted else f"; its files belong into {entry.path}"
    return f"by hand: {entry.manual}{where}"


def _check_space(entry: DataSet, missing: list[DataFile]) -> None:
    """Raise before any transfer if the known sizes exceed the free disk space."""
    needed = sum(file.bytes or 0 for file in missing)
    folder = entry.path
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed and free < needed + _MARGIN:
        raise DownloadError(
            f"{entry.path}: {entry.name} takes {needed} bytes and the disk has {free}; make space, "
            "or set EQUIGEO_DATA to another folder"
        )


@dataclass(frozen=True)
class Verification:
    """Result for one file."""

    name: str
    # right: published checksum; recorded: recorded checksum; unknown: no checksum to compare with
    state: Literal["right", "recorded", "unknown", "wrong", "missing"]
    digest: str = ""  # SHA-256; empty if missing

    @property
    def is_bad(self) -> bool:
        """Whether the file is wrong or missing."""
        return self.state in ("wrong", "missing")


def verify_data_set(entry: DataSet) -> list[Verification]:
    """Compare all files with published and recorded checksums."""
    recorded = read_checksums(entry.path)
    published = {file.name: file.sha256 for file in entry.files}
    names = dict.fromkeys([*published, *recorded, *entry.used])
    found = [_verify(entry, name, published.get(name), recorded.get(name)) for name in names]
    # Originals of a converted data set may be missing.
    return [one for one in found if one.state != "missing" or one.name in entry.used]


def _verify(entry: DataSet, name: str, published: str | None, recorded: str | None) -> Verification:
    path = entry.path / name
    if path.is_dir() and any(path.iterdir()):
        return Verification(name, "unknown")
    if not path.is_file():
        return Verification(name, "missing")
    digest = sha256_of(path)
    if published is not None:
        return Verification(name, "right" if digest == published else "wrong", digest)
    if recorded is not None:
        return Verification(name, "recorded" if digest == recorded else "wrong", digest)
    return Verification(name, "unknown", digest)
