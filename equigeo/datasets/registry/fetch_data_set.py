"""Download of a data set, with instructions if that is impossible."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

from equigeo.datasets.registry.checksums import read_checksums, record_checksums
from equigeo.datasets.registry.data_set import DataFile, DataSet
from equigeo.datasets.registry.download import DownloadError, Progress, download

_MARGIN = 64 << 20  # bytes that a disk should still have afterwards

Started = Callable[[DataFile], "Progress | None"]


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
    where = (
        "" if "equigeo data convert" in entry.manual else f"; its files belong into {entry.path}"
    )
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
