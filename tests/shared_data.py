"""Where the real data sets lie; tests that need one skip only where the folder is absent."""

from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Folder of one data set beside the checkout, or skip."""
    folder = _SHARED / name
    if not folder.is_dir():
        pytest.skip(f"needs the data set {name} in ../shared/data")
    return folder
