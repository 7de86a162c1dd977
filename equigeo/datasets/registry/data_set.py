"""What is known of a data set before anything of it is there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.registry.addresses import is_allowed


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, as its publishers distribute it.

    Parameters
    ----------
    name : str
        Where it lies below the folder of the data set, with forward slashes.
    url : str
        Where it is fetched from, by https; empty where only people get it.
    bytes : int, optional
        Its size, where that is known beforehand.
    sha256 : str, optional
        Its checksum in hexadecimal, where that is known beforehand. Otherwise it is recorded when
        the file is fetched first, and compared ever after.

    Raises
    ------
    ValueError
        If the name leaves the folder, the address is not of https, or the checksum is none.

    Examples
    --------
    >>> DataFile("digits.gz", "http://example.org/digits.gz")
    Traceback (most recent call last):
        ...
    ValueError: http://example.org/digits.gz: expected an address of https
    """

    name: str
    url: str = ""
    bytes: int | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be right."""
        path = PurePosixPath(self.name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in self.name:
            raise ValueError(f"{self.name!r}: expected a name below the folder of a data set")
        if self.url and not is_allowed(self.url):
            raise ValueError(f"{self.url}: expected an address of https")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.name}: expected 64 hexadecimal digits, got {self.sha256!r}")


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    Parameters
    ----------
    name : str
        What users type.
    title : str
        What it is, in one line.
    tasks : tuple of str
        Tasks of ``equigeo train`` that learn from it; empty if none does yet.
    licence : str
        In short, or what is known of it.
    source : str
        Who published it, and where.
    files : tuple of DataFile
        What is fetched.
    made : tuple of str
        Names of what ``equigeo data convert`` makes of it, where it is not used as it is.
    manual : str
        How to get it by hand.
    folder : str
        Name of its folder, by default the data set's own.
    collections : tuple of str
        Names of its parts, where each is a data set to learn from, ``"coseg/vases"``.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    licence: str
    source: str
    files: tuple[DataFile, ...]
    made: tuple[str, ...] = ()
    manual: str = ""
    folder: str = ""
    collections: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder of its files, which need not exist."""
        return data_root() / (self.folder or self.name)

    @property
    def bytes(self) -> int | None:
        """What is to be fetched; None where that is not known beforehand."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes or not sizes else sum(filter(None, sizes))

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the files that it is used from."""
        return self.made or tuple(file.name for file in self.files)

    @property
    def location(self) -> Path:
        """What readers take: the only file or folder that it is used from, or their folder."""
        return self.path / self.used[0] if len(self.used) == 1 else self.path

    @property
    def fetched(self) -> Path:
        """What a conversion starts from, where it was fetched: the only file, or their folder."""
        return self.path / self.files[0].name if len(self.files) == 1 else self.path

    @property
    def is_present(self) -> bool:
        """Whether all files that it is used from are there."""
        return all((self.path / name).exists() for name in self.used)

    @property
    def is_fetchable(self) -> bool:
        """Whether every file has an address."""
        return bool(self.files) and all(file.url for file in self.files)


def data_root() -> Path:
    """Give ``$EQUIGEO_DATA``, or the folder ``data`` of the cache; nothing is created.

    Returns
    -------
    Path
        The folder of all data sets, which need not exist.

    Raises
    ------
    ImportError
        As of :func:`cache_folder`.

    Examples
    --------
    >>> data_root().is_absolute()
    True
    """
    chosen = os.environ.get("EQUIGEO_DATA")
    return Path(chosen).expanduser().absolute() if chosen else cache_folder() / "data"
