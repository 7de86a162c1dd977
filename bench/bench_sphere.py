"""Functions on the sphere beside e3nn and sphericart: spherical harmonics and products on a grid.

Run with ``make bench``; choose by id, as in ``-k "harmonics and l4 and e3nn"``. Bytes are those of
coefficients and points, each moved once. ``bench/sphere.py`` times the same calls in turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.peers import Library, calls_as_they_are
from bench.record import record
from bench.sphere import POINTS, grid_libraries, harmonics_libraries


def run(benchmark: Any, libraries: dict[str, Library], peer: str, kind: str, numbers: int) -> None:
    """Time one of the passes, which have been compared with each other."""
    if peer not in libraries:
        pytest.skip("sphericart-torch is not installed: pip install equigeo[bench]")
    call = calls_as_they_are(libraries, (kind,))[f"{peer} {kind}"]
    record(benchmark, call, "sample", POINTS, 4 * numbers * POINTS)


@pytest.mark.parametrize("peer", ["ours", "e3nn", "sphericart"])
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("lmax", range(1, 11), ids=lambda lmax: f"l{lmax}")
def bench_harmonics(benchmark, lmax, kind, peer):
    dim = (lmax + 1) ** 2
    numbers = 3 + dim if kind == "forward" else 2 * (3 + dim)
    run(benchmark, harmonics_libraries(lmax), peer, kind, numbers)


@pytest.mark.parametrize("peer", ["ours", "e3nn", "ours fourier"])
@pytest.mark.parametrize("lmax", [2, 4, 6, 8, 10], ids=lambda lmax: f"L{lmax}")
def bench_grid_product(benchmark, lmax, peer):
    numbers = 2 * (lmax + 1) ** 2 + (2 * lmax + 1) ** 2
    run(benchmark, grid_libraries(lmax), peer, "forward", numbers)
