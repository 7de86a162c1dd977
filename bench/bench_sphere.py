"""Functions on the sphere beside e3nn and sphericart: spherical harmonics and products on a grid.

Run with ``make bench``; choose by id, as in ``-k "harmonics and l4 and e3nn"``. Bytes are those of
coefficients and points, each moved once. ``bench/sphere.py`` times the same calls in turn.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interleaved import copy_bandwidth
from sphere import BATCH, POINTS, grid_calls, harmonics_calls

from equigeo.ops import kernels_info


def run(benchmark: Any, calls: dict[str, Any], peer: str, items: int, numbers: int) -> None:
    """Time one of the calls, which have been compared with each other."""
    if peer not in calls:
        pytest.skip("sphericart-torch is not installed: pip install equigeo[bench]")
    benchmark.extra_info.update(
        items=items, threads=torch.get_num_threads(), isa=kernels_info()["isa"],
        torch=torch.__version__,
    )  # fmt: skip
    with torch.set_grad_enabled(peer.endswith("both")):
        benchmark(calls[peer])
    if benchmark.stats is None:  # timing is switched off
        return
    seconds = benchmark.stats["median"]
    rate = 4 * numbers * items / seconds
    benchmark.extra_info["microseconds per item"] = 1e6 * seconds / items
    benchmark.extra_info["GB/s"] = rate / 1e9
    benchmark.extra_info["per cent of copy bandwidth"] = 100 * rate / copy_bandwidth()


@pytest.mark.parametrize("peer", ["ours", "e3nn", "sphericart"])
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("lmax", range(1, 11), ids=lambda lmax: f"l{lmax}")
def bench_harmonics(benchmark, lmax, kind, peer):
    dim = (lmax + 1) ** 2
    numbers = 3 + dim if kind == "forward" else 2 * (3 + dim)
    run(benchmark, harmonics_calls(lmax), f"{peer} {kind}", POINTS, numbers)


@pytest.mark.parametrize("peer", ["ours", "e3nn", "ours fourier"])
@pytest.mark.parametrize("lmax", [2, 4, 6, 8, 10], ids=lambda lmax: f"L{lmax}")
def bench_grid_product(benchmark, lmax, peer):
    numbers = 2 * (lmax + 1) ** 2 + (2 * lmax + 1) ** 2
    run(benchmark, grid_calls(lmax), peer, BATCH, numbers)
