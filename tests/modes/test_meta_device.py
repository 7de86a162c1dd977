"""Layers without values for a while: they come back from the meta device, and leave no trace."""

import copy
from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.tensor_products import SphericalHarmonics
from tests.filled_later import filled_later, memory_of_others
from tests.modes.table import PER_FAMILY, ROWS
from tests.modes.test_kept_constants import forget_constants
from tests.modes.test_modes import ignore_warnings_of_pytorch, public_layers
from tests.tier import FULL

LAYERS = [row for row in ROWS if row.covers in public_layers()]
every_layer = pytest.mark.parametrize("row", LAYERS, ids=str)


@pytest.fixture
def _memory_of_others() -> Iterator[None]:
    with memory_of_others():
        yield


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    assert len(found) == len(expected) > 0
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@ignore_warnings_of_pytorch
@every_layer
@pytest.mark.usefixtures("_memory_of_others")
def test_layers_are_filled_by_their_state_alone(row):
    layer, inputs = row.bound(), row.inputs()
    expected = layer(*inputs)
    for through in ("meta", "cpu"):
        assert_same(filled_later(layer, through)(*inputs), expected)


@ignore_warnings_of_pytorch
@pytest.mark.parametrize("row", [r for r in LAYERS if FULL or r.name in PER_FAMILY], ids=str)
def test_layers_without_values_leave_no_trace(row):
    layer, inputs = row.bound(), row.inputs()
    expected = layer(*inputs)
    for mode in (lambda: torch.device("meta"), FakeTensorMode):
        forget_constants()
        with suppress(Exception), mode():
            row.make()
        assert_same(row.bound()(*inputs), expected)


NEED_VALUES = {
    "mds.Canonicalized": "is given samples without values",
}
"""Layers that cannot be made on the meta device and filled later; they raise."""


@ignore_warnings_of_pytorch
@every_layer
@pytest.mark.usefixtures("_memory_of_others")
def test_layers_made_on_the_meta_device_are_filled_later(row):
    layer, inputs = row.bound(), row.inputs()
    expected, state = layer(*inputs), layer.layer.state_dict()
    for fill in (into_memory, by_assignment, *([] if state else [by_moving])):
        with pytest.raises(Exception) if row.covers in NEED_VALUES else nullcontext():  # noqa: PT011
            with torch.device("meta"):
                made = row.make()
            layer.layer = fill(made, state).double().eval()
            assert not any(x.is_meta for x in layer.buffers())
            assert_same(layer(*inputs), expected)


def into_memory(made: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    made.to_empty(device="cpu").double().load_state_dict(state)
    return made


def by_assignment(made: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    made.load_state_dict(state, assign=True)
    return made


def by_moving(made: nn.Module, _: dict[str, Tensor]) -> nn.Module:
    return copy.deepcopy(made).to("cpu")


OF_OPS = [row for row in ROWS if row.covers in SCHEMAS and len(row.inputs()) > 1]


@pytest.mark.parametrize("row", OF_OPS, ids=str)
def test_ops_refuse_a_meta_tensor_among_others(row):
    *others, last = row.inputs()
    with pytest.raises(ValueError, match=r"on the meta device|on the device of \w+, cpu, got meta"):
        row.bound()(*others, last.to("meta"))


def test_ops_refuse_a_table_without_values():
    harmonics = SphericalHarmonics("0e + 1o", normalize=True)
    for part in harmonics.modules():
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, buffer.to("meta"))
    with pytest.raises(ValueError, match="got table on the meta device"):
        harmonics(torch.ones(2, 3))
