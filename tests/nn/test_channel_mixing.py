"""Channels mixed for all rows against sums, one block at a time."""

import pytest
import torch

from equigeo.nn.channel_mixing import ChannelMixing, MixingBlock, cut_pieces
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.draws import random

IN, OUT = "2x0e+1x1o+3x1o+4x2e+2x1o", "3x1o+5x0e+2x1o+2x3e+1x2e"
# start, i_out, shape, weight, factor and scalar: neighbours that can be joined, one that is read
# twice, gaps in rows and weights, factors that differ, and terms that nothing reaches.
PLAIN = [
    MixingBlock(2, 0, (1, 3), 0, 0.5),
    MixingBlock(5, 0, (3, 3), 3, 0.5),
    MixingBlock(34, 0, (2, 3), 14, 2.0),
    MixingBlock(0, 1, (2, 5), 20, 1.0),
    MixingBlock(5, 2, (3, 2), 30, 1.0),
]
SCALED = [
    MixingBlock(2, 0, (1, 2, 3), 0, 0.5, 1),
    MixingBlock(5, 0, (3, 2, 3), 6, 0.5, 1),
    MixingBlock(34, 2, (2, 3, 2), 26, 2.0, 0),
    MixingBlock(14, 4, (4, 1, 1), 40, 1.0, 2),
    MixingBlock(0, 1, (2, 2, 5), 44, 1.0, 1),  # more channels than scalars
]


def by_definition(blocks, x, weight, y):
    outs = Irreps(OUT)
    out = x.new_zeros(x.shape[0], outs.dim)
    starts = [part.start for part in outs.slices()]
    for block in blocks:
        mul, *_, mul_out = block.shape
        dim = 2 * outs.terms[block.i_out][1][0] + 1
        term = x[:, block.start : block.start + mul * dim].view(-1, mul, dim)
        count = block.weight + torch.Size(block.shape).numel()
        matrix = block.factor * weight[block.weight : count].view(mul, -1, mul_out)
        scalars = y[:, block.scalar :][:, : matrix.shape[1]] if y is not None else x.new_ones(1, 1)
        start = starts[block.i_out]
        made = torch.einsum("rum,uvw,rv->rwm", term, matrix, scalars.expand(len(x), -1))
        out[:, start : start + mul_out * dim] += made.flatten(1)
    return out


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
@pytest.mark.parametrize("blocks", [PLAIN, SCALED], ids=["plain", "scaled"])
def test_it_is_the_sum_over_blocks(blocks, layout, rows):
    ins, outs = Irreps(IN), Irreps(OUT)
    x, weight = random(rows, ins.dim), random(66, seed=1)
    y = random(rows, 3, seed=2) if blocks is SCALED else None
    mixing = ChannelMixing(ins.with_layout(layout), outs.with_layout(layout), blocks, 66)
    found = mixing(ins.to_layout(x, layout), weight, y)
    assert found.is_contiguous()
    got = outs.with_layout(layout).to_layout(found, "mul_ir")
    torch.testing.assert_close(got, by_definition(blocks, x, weight, y), **tolerance(x.dtype, 32))


def test_neighbours_meet_in_one_matrix_product(monkeypatch):
    ins, outs = Irreps("2x1o+3x1o+4x1o"), Irreps("5x1o")
    blocks = [
        MixingBlock(0, 0, (2, 5), 0, 1.0),
        MixingBlock(6, 0, (3, 5), 10, 1.0),
        MixingBlock(15, 0, (4, 5), 25, 1.0),
    ]
    calls, addmm = [], torch.addmm

    def counted(input, a, b, **options):
        calls.append(a.shape)
        return addmm(input, a, b, **options)

    monkeypatch.setattr(torch, "addmm", counted)
    ChannelMixing(ins, outs, blocks, 45)(random(7, 27), random(45))
    assert calls == [(5, 9)]


def test_rows_are_cut_where_ranges_begin_and_end():
    assert cut_pieces([(2, 3), (5, 1), (2, 3)], 8) == ([2, 3, 1, 2], {0: 0, 2: 1, 5: 2, 6: 3})
    assert cut_pieces([], 4) == ([4], {0: 0})
    assert cut_pieces([], 0) == ([], {})
