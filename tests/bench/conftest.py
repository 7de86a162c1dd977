"""Only recorded figures are checked in the fast tier, not the scripts that make them."""

from pathlib import Path

import pytest

FAST = {"test_figures.py", "test_records.py", "test_rows.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in FAST:
            item.add_marker("full")
