import pytest
import torch
from torch import nn

from tests.gpu.layer_rows import MODES, check_layers, outcome
from tests.modes.row import Row, randn

pytestmark = pytest.mark.full
CPU = torch.device("cpu")


def test_layer_rows_pass_on_the_cpu():
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


class Wrong(nn.Module):
    """A layer that computes something else each time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(())


@pytest.mark.parametrize("mode", ["eager", "inference"])
def test_other_numbers_are_a_failure(mode):
    row = Row("wrong", Wrong, randn((2, 3)), lambda layer, x: layer(x), "wrong")
    assert outcome(row, mode, MODES[mode], CPU).startswith("failed: AssertionError: ")


def test_capture_error_is_a_failure_only_with_wrong_numbers():
    row = Row("row", nn.Identity, randn((2, 3)), lambda layer, x: layer(x), "row")

    def raising(error):
        def mode(row, device):
            raise error

        return mode

    for name, error, start in (
        ("graph", RuntimeError("capturing"), "not captured: RuntimeError"),
        ("graph", AssertionError("other numbers"), "failed: AssertionError"),
        ("eager", RuntimeError("capturing"), "failed: RuntimeError"),
    ):
        assert outcome(row, name, raising(error), torch.device("cuda")).startswith(start)
