"""Atomic saving of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigeo.datasets.replace_file import replace_file


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an ``.npz`` file atomically; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
