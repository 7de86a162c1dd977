"""Verification of the files of a data set by checksum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equigeo.datasets.registry.checksums import read_checksums
from equigeo.datasets.registry.data_set import DataSet
from equigeo.datasets.unpack_archive import sha256_of


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
