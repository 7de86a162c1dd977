"""Every cell of the mode matrix passes, or is listed with its reason and fails with an error."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from torch import nn

import equigeo
from equigeo.ops import kernels_info
from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes import programs
from tests.modes.table import COLUMNS, PAGE, ROWS, page
from tests.modes.unsupported import UNSUPPORTED, reason

PACKAGES = (
    "nn",
    "tensor_products",
    "affine",
    "mesh",
    "mds",
    "points",
    "graphs",
    "groups",
    "reps",
    "potentials",
)
BASES = {
    "nn.Tables",
    "tensor_products.PathProduct",
    "tensor_products.Product",
    "tensor_products.SignalProduct",
    "affine.GroupConvolution",
    "affine.PointConvolution",
    "points.PointNetwork",
}
"""Classes that are there to be inherited from."""


def public_layers() -> set[str]:
    """One public name of each layer."""
    names: dict[type, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"{equigeo.__name__}.{package}")
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isclass(value) and issubclass(value, nn.Module):
                names.setdefault(value, f"{package}.{name}")
    return set(names.values())


def test_every_layer_and_every_op_has_a_row():
    covered = {row.covers for row in ROWS}
    assert (public_layers() - BASES) - covered == set()
    assert set(SCHEMAS) - covered == set()


def test_rows_have_names_of_their_own():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_exception_is_of_a_cell():
    rows, columns = [row.name for row in ROWS], {column.__name__ for column in COLUMNS}
    for pattern, named, _ in UNSUPPORTED:
        assert any(fnmatchcase(row, pattern) for row in rows), pattern
        assert set(named) <= columns


def test_the_page_of_modes_is_of_this_table():
    assert PAGE.read_text() == page(), "run python -m tests.modes.table --write"


FULL = os.environ.get("EQUIGEO_MODES") == "full"
"""Whether programs are made of all rows."""
TOGETHER = 13  # rows in one program: few compilations, and errors that say about where


def programs_of_many() -> Iterator[Any]:
    """Rows that pass, several at once; the others have a test of their own each."""
    for column in programs.MACHINE_CODE:
        rows = [row for row in ROWS if FULL or programs.is_tried(row, column, ROWS)]
        rows = [row for row in rows if reason(row.name, column.__name__) is None]
        for first in range(0, len(rows), TOGETHER):
            some = rows[first : first + TOGETHER]
            yield pytest.param(column, some, id=f"{column.__name__}-{some[0]}")


def cells() -> Iterator[Any]:
    for row, column in product(ROWS, COLUMNS):
        alone = column not in programs.MACHINE_CODE or reason(row.name, column.__name__)
        if alone and (FULL or programs.is_tried(row, column, ROWS)):
            yield pytest.param(row, column, id=f"{row}-{column.__name__}")


def every_warning_of_others(test: Callable[..., None]) -> Callable[..., None]:
    """Ignore what PyTorch says of itself, and layers of the small problems here."""
    for message in (
        "ignore::equigeo.affine.WindowWarning",
        "ignore:`torch.jit:DeprecationWarning",
        "ignore:This process:DeprecationWarning",  # fork with threads
        "ignore:There is a performance drop:UserWarning",  # vmap
        "ignore:.*symmetries that leave:UserWarning",  # seen in bfloat16
    ):
        test = pytest.mark.filterwarnings(message)(test)
    return test


@every_warning_of_others
@pytest.mark.parametrize(("row", "column"), list(cells()))
def test_cell(row, column):
    if reason(row.name, column.__name__) is None:
        column(row)
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever says so
        column(row)
    assert not isinstance(caught.value, AssertionError), "wrong numbers are no exception"


@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="a library of kernels is what is loaded")
@pytest.mark.filterwarnings("ignore")  # the compilers' own
@pytest.mark.parametrize(("column", "rows"), list(programs_of_many()))
def test_machine_code_of_several_rows(column, rows):
    column(*rows)
