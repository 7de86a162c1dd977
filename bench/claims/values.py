"""What claims are computed by: runs and rows of records, means and ranges."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

from bench.figures import WITH_TABLES, record

README, FIGURES = WITH_TABLES


def runs(name: str, /, **wanted: Any) -> list[Any]:
    """Runs of a record that have these entries."""
    found = [run for run in record(name)["runs"] if wanted.items() <= run.items()]
    assert found, (name, wanted)
    return found


def rows(name: str, part: str = "rows", /, **wanted: Any) -> list[Any]:
    """Rows of a record that have these entries."""
    found = [row for row in record(name)[part] if wanted.items() <= row.items()]
    assert found, (name, wanted)
    return found


def percent(values: Iterable[float]) -> list[float]:
    return [100 * value for value in values]


def ends(values: Iterable[float]) -> tuple[float, float]:
    """Least and greatest."""
    found = list(values)
    return min(found), max(found)


def mean_least(values: Iterable[float]) -> tuple[float, float]:
    """Geometric mean and least."""
    found = list(values)
    return geometric_mean(found), min(found)
