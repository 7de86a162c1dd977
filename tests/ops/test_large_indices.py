"""Offsets of elements beyond 2^31 are computed in 64 bits."""

import numpy as np
import pytest
import torch

from equigeo.graphs import EdgeIndex
from equigeo.ops import PathTable, channelwise_conv, gather_sum
from tests.ops.path_tables import channelwise_path

pytestmark = pytest.mark.kernels

CHANNELS, ROWS = 2**20, 2**11 + 2  # the last two rows begin at 2^31 and beyond


@pytest.fixture
def far() -> torch.Tensor:
    """Rows of zeros, of which the system holds only the last two, which are written to."""
    try:
        x = torch.from_numpy(np.zeros((ROWS, CHANNELS), np.float32))
    except MemoryError:
        pytest.skip("the system grants no address space of 9 GB")
    x[-2], x[-1] = torch.arange(CHANNELS), 2.0
    return x


@pytest.fixture
def edges() -> EdgeIndex:
    return EdgeIndex.from_edges(torch.tensor([[ROWS - 2, ROWS - 1], [0, 0]]), ROWS, 1)


WANT = torch.arange(CHANNELS, dtype=torch.float32)


def test_gather_sum(far, edges):
    assert torch.equal(edges.sum(far), WANT[None] + 2)
    assert torch.equal(gather_sum(far, *_arguments(edges)), WANT[None] + 2)


def test_channelwise_conv(far, edges):
    y = torch.tensor([[3.0], [5.0]])
    assert torch.equal(
        channelwise_conv(far, y, None, _graph(edges), _scalars()), 3 * WANT[None] + 10
    )


def test_segment_attention(far, edges):
    out, _ = edges.attend(far[:, None], torch.zeros(2, 1))
    assert torch.equal(out[:, 0], (WANT[None] + 2) / 2)


def _arguments(edges: EdgeIndex) -> list[torch.Tensor]:
    return [edges.source, edges.ptr, edges.back_target, edges.back_ptr]


def _graph(edges: EdgeIndex) -> tuple[torch.Tensor, ...]:
    return (
        edges.source, edges.ptr, edges.order, edges.target, edges.back_order, edges.back_ptr
    )  # fmt: skip


def _scalars() -> PathTable:
    path = channelwise_path(0, 0, 0, None, CHANNELS, 1, torch.ones(1, 1, 1))
    return PathTable.from_paths([path], (CHANNELS, 1, 0, CHANNELS), by_output=True)
