"""Results for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equigeo.training.atomic_write import atomic_write


def write_json(path: Path | None, results: dict[str, Any]) -> None:
    """Write results where the user asked for them.

    Parameters
    ----------
    path : Path, optional
        The file; none if absent.
    results : dict of JSON types
        What to write.
    """
    if path is not None:
        text = json.dumps(results, indent=1) + "\n"
        atomic_write(path, lambda file: file.write(text.encode()))
