"""Whether the files of a data set are those that they should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equigeo.datasets.registry.checksums import read_checksums
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.registry.download import sha256_of


@dataclass(frozen=True)
class Verification:
    """What was found of one file.

    Parameters
    ----------
    name : str
        Of the file.
    state : {"right", "recorded", "unknown", "wrong", "missing"}
        Its checksum is the published one; the one recorded when it was fetched or made; nothing is
        known of it; it has another one; or it is not there.
    digest : str
        SHA-256 that it has; empty where it is missing.
    """

    name: str
    state: Literal["right", "recorded", "unknown", "wrong", "missing"]
    digest: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether the data set cannot be relied on."""
        return self.state in ("wrong", "missing")


def verify_data_set(entry: DataSet) -> list[Verification]:
    """Compare all files that are there with what is known of them.

    Parameters
    ----------
    entry : DataSet
        What to verify.

    Returns
    -------
    list of Verification
        Of the published files, then of those that a conversion made. Of a data set that is used
        from converted files, published files may be missing.

    Examples
    --------
    >>> from equigeo.datasets.registry.data_sets import find_data_set
    >>> len(verify_data_set(find_data_set("mnist")))
    4
    """
    recorded = read_checksums(entry.path)
    published = {file.name: file.sha256 for file in entry.files}
    names = dict.fromkeys([*published, *recorded, *entry.used])
    found = [_verify(entry, name, published.get(name), recorded.get(name)) for name in names]
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
