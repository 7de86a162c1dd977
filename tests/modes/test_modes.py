"""Every cell of the mode matrix passes, or is listed with its reason and fails with an error."""

from __future__ import annotations

import importlib
import inspect
from fnmatch import fnmatchcase

import pytest
from torch import nn

import equigeo
from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes.table import COLUMNS, PAGE, ROWS, page
from tests.modes.unsupported import UNSUPPORTED, reason

PACKAGES = ("nn", "tensor_products", "affine", "mesh", "mds", "points", "graphs", "groups", "reps")
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


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork with threads
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # vmap's own
@pytest.mark.filterwarnings("ignore:.*symmetries that leave:UserWarning")  # seen in bfloat16
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.__name__)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_cell(row, column):
    if reason(row.name, column.__name__) is None:
        column(row)
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever says so
        column(row)
    assert not isinstance(caught.value, AssertionError), "wrong numbers are no exception"
