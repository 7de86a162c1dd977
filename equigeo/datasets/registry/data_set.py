"""Metadata of a data set."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.registry.addresses import is_allowed


@dataclass(frozen=True)
class DataFile:
    """File of a published data set."""

    name: str  # relative to the data set's folder, with forward slashes
    url: str = ""  # https; empty if it must be downloaded by hand
    bytes: int | None = None  # size, if known
    sha256: str | None = None  # if None: recorded at the first download, then compared

    def __post_init__(self) -> None:
        """Validate the fields."""
        path = PurePosixPath(self.name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in self.name:
            raise ValueError(f"{self.name!r}: expected a name below the folder of a data set")
        if self.url and not is_allowed(self.url):
            raise ValueError(f"{self.url}: expected an address of https")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.name}: expected 64 hexadecimal digits, got {self.sha256!r}")


@dataclass(frozen=True)
class DataSet:
    """Published data set."""

    name: str  # as users type it
    title: str  # one line
    tasks: tuple[str, ...]  # of `equigeo train`
    licence: str
    source: str  # publisher and address
    files: tuple[DataFile, ...]  # to download
    made: tuple[str, ...] = ()  # names of converted files, if it is not used as published
    manual: str = ""  # how to download it by hand
    folder: str = ""  # default: the name
    collections: tuple[str, ...] = ()  # parts that are data sets of their own, as in "coseg/vases"

    @property
    def path(self) -> Path:
        """Folder of the files, which may not exist."""
        return data_root() / (self.folder or self.name)

    @property
    def bytes(self) -> int | None:
        """Size of the download; None if unknown."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes or not sizes else sum(filter(None, sizes))

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the files that readers use."""
        return self.made or tuple(file.name for file in self.files)

    @property
    def location(self) -> Path:
        """Argument of readers: the only file or folder that is used, or their folder."""
        return self.path / self.used[0] if len(self.used) == 1 else self.path

    @property
    def fetched(self) -> Path:
        """Source of the conversion after a download: the only file, or the folder."""
        return self.path / self.files[0].name if len(self.files) == 1 else self.path

    @property
    def is_present(self) -> bool:
        """Whether all files that readers use exist."""
        return all((self.path / name).exists() for name in self.used)

    @property
    def is_fetchable(self) -> bool:
        """Whether every file has an address."""
        return bool(self.files) and all(file.url for file in self.files)


def data_root() -> Path:
    """Return ``$EQUIGEO_DATA``, or ``data`` in the cache folder, without creating it."""
    chosen = os.environ.get("EQUIGEO_DATA")
    return Path(chosen).expanduser().absolute() if chosen else cache_folder() / "data"
