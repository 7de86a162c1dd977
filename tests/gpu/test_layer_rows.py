from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.gpu.layer_rows import MODES, check_layers, outcome
from tests.modes.row import Row, randn
from tests.modes.table import ROWS

CPU = torch.device("cpu")


def test_layers_pass_where_they_are_made():
    found = check_layers(CPU, ["nn.Linear", "tensor_products.ChannelwiseConv of", "mds.frames"])
    assert found["failures"] == []
    assert found["rows"]["nn.Linear"] == {
        "eager": "passed",
        "float32": "passed",
        "inference": "passed",
        "compiled": "passed",
        "graph": "not supported: a graph is captured from a card",
    }
    assert found["rows"]["mds.frames"]["compiled"].startswith("not supported: how many frames")
    assert not any(name.startswith("ops.") for name in check_layers(CPU, ["nothing"])["rows"])


class Wrong(nn.Module):
    """A layer that computes something else each time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(())


@pytest.mark.parametrize("mode", ["eager", "inference"])
def test_other_numbers_are_a_failure(mode):
    row = Row("wrong", Wrong, randn((2, 3)), lambda layer, x: layer(x), "wrong")
    assert outcome(row, mode, MODES[mode], CPU).startswith("failed: AssertionError: ")


def test_every_layer_can_be_put_on_a_device_without_numbers():
    """No card is at hand: where a row names the CPU, the meta device refuses it as a card would."""
    meta = torch.device("meta")
    row = next(row for row in ROWS if row.name == "nn.Linear")
    bound = row.bound().to(meta)
    assert all(x.device == meta for x in bound(*(x.to(meta) for x in row.inputs())))


def test_a_capture_that_fails_is_no_failure_unless_numbers_are_wrong():
    row = Row("row", nn.Identity, randn((2, 3)), lambda layer, x: layer(x), "row")
    card = torch.device("cuda")

    def looks_at_values(row, device):
        raise RuntimeError("operation not permitted when stream is capturing")

    def is_wrong(row, device):
        raise AssertionError("other numbers")

    assert outcome(row, "graph", looks_at_values, card).startswith("not captured: RuntimeError")
    assert outcome(row, "graph", is_wrong, card).startswith("failed: AssertionError")
    assert outcome(row, "eager", looks_at_values, card).startswith("failed: RuntimeError")
