"""Channelwise products and convolutions beside e3nn and cuEquivariance.

Run with ``make bench``; choose by id, as in ``-k "mace-large and both"``. Bytes are inputs and
output, each moved once, and twice that with gradients. ``bench/channelwise.py`` times the same
calls in turn and writes the ratios.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from channelwise import PROBLEMS, conv_calls, product_calls, product_numbers
from interleaved import copy_bandwidth

from equigeo.ops import kernels_info

EDGES, NODES, NEIGHBOURS = 1024, 164, 50


def run(benchmark: Any, call: Any, edges: int) -> float | None:
    """Time a call; its median in seconds, if timing is not switched off."""
    benchmark.extra_info.update(
        edges=edges, threads=torch.get_num_threads(), isa=kernels_info()["isa"],
        torch=torch.__version__,
    )  # fmt: skip
    benchmark(call)
    if benchmark.stats is None:
        return None
    seconds = benchmark.stats["median"]
    benchmark.extra_info["microseconds per edge"] = 1e6 * seconds / edges
    return seconds


@pytest.mark.parametrize("peer", ["ours mul_ir", "ours ir_mul", "e3nn", "cuEquivariance ir_mul"])
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("name", PROBLEMS)
def bench_channelwise_product(benchmark, name, kind, peer):
    seconds = run(benchmark, product_calls(name, EDGES)[f"{peer} {kind}"], EDGES)
    if seconds is not None:
        numbers = product_numbers(name) * (1 if kind == "forward" else 2)
        rate = 4 * numbers * EDGES / seconds
        benchmark.extra_info["GB/s"] = rate / 1e9
        benchmark.extra_info["per cent of copy bandwidth"] = 100 * rate / copy_bandwidth()


@pytest.mark.parametrize(
    "call",
    [
        "e3nn forward",
        "ours forward",
        "e3nn both",
        "ours both",
        "ours, radial layer before",
        "ours, radial layer inside",
    ],
)
def bench_channelwise_conv(benchmark, call):
    run(benchmark, conv_calls("mace-large", NODES, NEIGHBOURS)[call], NODES * NEIGHBOURS)
