"""Where real data lie: excerpts in ``data/``, whole sets beside the checkout where they are."""

import os
from pathlib import Path

import pytest

from tests.tier import FULL

COMMITTED = Path(__file__).resolve().parents[1] / "data"
_SHARED = Path(
    os.environ.get("EQUIGEO_SHARED_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)


def available(name: str) -> list[Path]:
    """Folders of one data set: the excerpt, and in the full tier the whole where it is."""
    folders = [COMMITTED / name, *([_SHARED / name] if FULL else [])]
    return [folder for folder in folders if folder.is_dir()]


def on_data(name: str) -> pytest.MarkDecorator:
    """Run a test with ``folder`` on the excerpt, and on the whole where it is."""
    folders = available(name)
    ids = ["excerpt" if folder.parent == COMMITTED else "whole" for folder in folders]
    return pytest.mark.parametrize("folder", folders, ids=ids)


def shared_data(name: str) -> Path:
    """Folder of a whole data set, or skip: for sets whose licence allows no excerpt."""
    folder = _SHARED / name
    if not FULL:
        pytest.skip("whole data sets are read in the full tier")
    if not folder.is_dir():
        pytest.skip(f"needs the data set {name} in ../shared/data, or EQUIGEO_SHARED_DATA")
    return folder
