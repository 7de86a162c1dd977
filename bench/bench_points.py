"""Searches in point clouds: our own beside those through torch-cluster.

Run with ``make bench``; choose by id, as in ``-k "nearest and 32x1024"``. Sides that go through
torch-cluster are skipped where it is not installed: ``make test-cluster`` compiles it into an
environment of its own. ``alone`` is torch-cluster's function without anything of ours, whose
results may differ in ties and order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.record import record
from equigeo.points import farthest_point_sampling, nearest_neighbors, radius_neighbors
from equigeo.points import search as cluster_search
from equigeo.points.search import torch_cluster

SHAPES = [(32, 256), (32, 1024), (8, 4096), (1, 32768)]
NEIGHBORS = 16
SHARE = 8  # one point in eight is sampled
LARGEST = 2**28  # pairs of points, beyond which their distances fill the memory


def clouds(count: int, points: int) -> Tensor:
    """Points on spheres, as scans are points on surfaces."""
    x = torch.randn(count, points, 3, generator=torch.Generator().manual_seed(points))
    return x / x.norm(dim=-1, keepdim=True)


def radius(points: int) -> float:
    """Of balls that hold about as many points of a unit sphere as neighbors are asked for."""
    return 2 * (NEIGHBORS / points) ** 0.5


SEARCHES: dict[str, Callable[[Tensor], Any]] = {
    "sampling": lambda x: farthest_point_sampling(x, x.shape[1] // SHARE),
    "nearest": lambda x: nearest_neighbors(x, NEIGHBORS),
    "radius": lambda x: radius_neighbors(x, radius(x.shape[1]), NEIGHBORS),
    "radius, all": lambda x: radius_neighbors(x, radius(x.shape[1])),
}


def alone(name: str, x: Tensor) -> Callable[[], Any]:
    """torch-cluster's own call."""
    cluster = torch_cluster()
    assert cluster is not None
    count, points, _ = x.shape
    flat, batch = x.flatten(0, 1), torch.arange(count).repeat_interleave(points)
    if name == "sampling":
        return lambda: cluster.fps(flat, batch, ratio=1 / SHARE, random_start=False)
    if name == "nearest":
        return lambda: cluster.knn(flat, flat, NEIGHBORS, batch, batch)
    most = NEIGHBORS if name == "radius" else points
    return lambda: cluster.radius(flat, flat, radius(points), batch, batch, max_num_neighbors=most)


@contextmanager
def searches_by(side: str) -> Iterator[None]:
    """Search by ourselves or through torch-cluster, whatever the environment says."""
    chosen = cluster_search.torch_cluster
    if side == "own":
        cluster_search.torch_cluster = lambda: None  # type: ignore[assignment]
    try:
        yield
    finally:
        cluster_search.torch_cluster = chosen


def calls(name: str, x: Tensor) -> dict[str, Callable[[], Any]]:
    """Every side of a search."""

    def by(side: str) -> Callable[[], Any]:
        def call() -> Any:
            with searches_by(side):
                return SEARCHES[name](x)

        return call

    sides = {"own": by("own")}
    if torch_cluster() is not None:
        sides |= {"through torch-cluster": by("torch-cluster"), "alone": alone(name, x)}
    return sides


def fits(name: str, count: int, points: int) -> bool:
    return name == "sampling" or count * points**2 <= LARGEST


@pytest.mark.parametrize("side", ["own", "through torch-cluster", "alone"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
@pytest.mark.parametrize("name", SEARCHES)
def bench_search(benchmark: Any, name: str, shape: tuple[int, int], side: str) -> None:
    if not fits(name, *shape):
        pytest.skip("distances of all pairs do not fit")
    sides = calls(name, clouds(*shape))
    if side not in sides:
        pytest.skip("torch-cluster is not installed")
    record(benchmark, sides[side], "point", shape[0] * shape[1])
