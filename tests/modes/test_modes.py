"""Every cell of the mode matrix passes, or is listed with its reason and fails with an error."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from torch import nn

import equigeo
from equigeo.ops import kernels_info
from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes import programs
from tests.modes.row import compared
from tests.modes.table import COLUMNS, GROUPS, PAGE, ROWS, cells, page
from tests.modes.unsupported import UNSUPPORTED

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
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_exception_is_of_a_cell():
    rows, columns = [row.name for row in ROWS], {column.__name__ for column in COLUMNS}
    for patterns, named, _ in UNSUPPORTED:
        for pattern in patterns.split("; "):
            assert any(fnmatchcase(row, pattern) for row in rows), pattern
        assert set(named) <= columns


def test_the_page_of_modes_is_generated_from_this_table():
    assert sorted(map(id, COLUMNS)) == sorted(
        id(each) for group in GROUPS.values() for each in group
    )
    assert PAGE.read_text() == page(), "run python -m tests.modes.table --write"


TOGETHER = 13  # rows per program: few compilations, and errors that name a small group


def plain_cells() -> Iterator[Any]:
    """Yield cells that are tests of their own."""
    for row, column, why in cells():
        if why or column not in programs.MACHINE_CODE:
            yield pytest.param(row, column, why, id=f"{row}-{column.__name__}")


def machine_code() -> Iterator[Any]:
    """Yield columns of machine code with groups of rows."""
    for column in programs.MACHINE_CODE:
        rows = [row for row, other, why in cells() if other is column and not why]
        for first in range(0, len(rows), TOGETHER):
            yield column, rows[first : first + TOGETHER]


def ignore_warnings_of_pytorch(test: Callable[..., None]) -> Callable[..., None]:
    """Ignore PyTorch's deprecation warnings and warnings about small test problems."""
    for message in (
        "ignore::equigeo.affine.WindowWarning",
        "ignore:This process:DeprecationWarning",  # fork with threads
        "ignore:There is a performance drop:UserWarning",  # vmap
        "ignore:.*symmetries that leave:UserWarning",  # seen in bfloat16
    ):
        test = pytest.mark.filterwarnings(message)(test)
    return test


@ignore_warnings_of_pytorch
@pytest.mark.parametrize(("row", "column", "why"), list(plain_cells()))
def test_cell(row, column, why):
    compared[0] = 0
    if why is None:
        column(row)
        assert compared[0], "the cell compared nothing"
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any error will do
        column(row)
    assert not isinstance(caught.value, AssertionError), "wrong numbers are no exception"


@pytest.mark.full  # the fast tier packages a potential
@pytest.mark.skipif(kernels_info()["cpu"] is None, reason="programs load the compiled kernels")
@pytest.mark.filterwarnings("ignore")  # warnings of the compilers
@pytest.mark.parametrize(
    ("column", "rows"),
    list(machine_code()),
    ids=lambda x: str(x[0]) if isinstance(x, list) else x.__name__,
)
def test_machine_code_of_several_rows(column, rows):
    compared[0] = 0
    column(*rows)
    assert compared[0]
