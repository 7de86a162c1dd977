"""Recorded checksums of fetched and converted files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from equigeo.datasets.replace_file import replace_file

RECORD: Final = "checksums.json"


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the recorded SHA-256 by file name; empty without a record."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); remove it to record anew") from error
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise ValueError(f"{path}: expected checksums by name; remove it to record anew")
    return found


def record_checksums(folder: Path, digests: dict[str, str]) -> None:
    """Add checksums to the record of a folder atomically."""
    text = json.dumps(read_checksums(folder) | digests, indent=1, sort_keys=True) + "\n"
    replace_file(folder / RECORD, text)
