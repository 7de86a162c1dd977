"""Functions on the sphere beside e3nn and sphericart: spherical harmonics and products on a grid.

Run with ``make bench``; choose by id, as in ``-k "harmonics and l4 and e3nn"``. Bytes are those of
coefficients and points, each moved once. ``bench/sphere.py`` times the same calls in turn.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.record import record
from bench.sphere import BATCH, POINTS, grid_calls, harmonics_calls


def run(benchmark: Any, calls: dict[str, Any], peer: str, items: int, numbers: int) -> None:
    """Time one of the calls, which have been compared with each other."""
    if peer not in calls:
        pytest.skip("sphericart-torch is not installed: pip install equigeo[bench]")
    with torch.set_grad_enabled(peer.endswith("both")):
        record(benchmark, calls[peer], "sample", items, 4 * numbers * items)


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
