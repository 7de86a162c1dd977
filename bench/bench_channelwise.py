"""Channelwise products and convolutions beside e3nn and cuEquivariance.

Run with ``make bench``; choose by id, as in ``-k "mace-large and both"``. Bytes are inputs and
output, each moved once, and twice that with gradients. ``bench/channelwise.py`` times the same
calls in turn and writes the ratios.
"""

from __future__ import annotations

import pytest

from bench.channelwise import PROBLEMS, SMALL, conv_calls, product_calls, product_numbers
from bench.record import record
from bench.second_derivatives import conv_calls as conv_second
from bench.second_derivatives import product_calls as product_second

EDGES, NODES, NEIGHBOURS = 1024, 164, 50


@pytest.mark.parametrize("peer", ["ours mul_ir", "ours ir_mul", "e3nn", "cuEquivariance ir_mul"])
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("name", PROBLEMS)
def bench_channelwise_product(benchmark, name, kind, peer):
    moved = 4 * EDGES * product_numbers(PROBLEMS[name]) * (1 if kind == "forward" else 2)
    record(benchmark, product_calls(name, EDGES)[f"{peer} {kind}"], "edge", EDGES, moved)


@pytest.mark.parametrize(
    "call",
    [
        "e3nn forward",
        "ours forward",
        "e3nn both",
        "ours both",
        "ours, radial layer before forward",
        "ours, radial layer inside forward",
    ],
)
def bench_channelwise_conv(benchmark, call):
    calls = conv_calls("mace-large", NODES, NEIGHBOURS)
    record(benchmark, calls[call], "edge", NODES * NEIGHBOURS)


@pytest.mark.parametrize("peer", ["ours", "e3nn"])
@pytest.mark.parametrize("kind", ["product", "conv"])
def bench_second_derivatives(benchmark, kind, peer):
    calls = product_second(SMALL, 64) if kind == "product" else conv_second(SMALL)
    record(benchmark, calls[peer], "call", 1)
