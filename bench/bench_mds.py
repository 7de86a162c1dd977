"""Invariant embeddings beside plain PyTorch.

Run with ``make bench``; choose by id, as in ``-k "embed and 64x1024"``. ``op`` is one pass over
the clouds, ``embed`` checks and flags them too, with default options or scaled to one (``rms``);
``eager`` is the shortest chain of PyTorch that gives the same coordinates, ``reference`` all that
the op gives, for ragged clouds as well. Bytes are those of points and coordinates, each moved once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.record import record
from equigeo import mds
from equigeo.ops import principal_axes, symmetric_eigen
from equigeo.ops.geometry.principal_axes import principal_axes_reference

SHAPES = [(4096, 32), (1024, 128), (64, 1024), (32, 2048)]
MATRICES = 100_000
LARGE = 1_000_000
QUIET = mds.EmbedOptions(fallback="ignore")


def clouds(count: int, points: int) -> Tensor:
    x = torch.randn(count, points, 3, generator=torch.Generator().manual_seed(points))
    return (x + 0.2 * x.square()) * torch.tensor([3.0, 2.0, 1.0])


def eager(x: Tensor) -> Tensor:
    """Center, rotate and fix signs, with sums in float64 as the op."""
    return turned(x.double()).float()


def eager_float32(x: Tensor) -> Tensor:
    """The same in the type of the points, which the embedding is not content with."""
    return turned(x)


def eager_rms(x: Tensor) -> Tensor:
    """The same, scaled."""
    return scaled(turned(x.double())).float()


def eager_rms_float32(x: Tensor) -> Tensor:
    """The same in the type of the points, scaled."""
    return scaled(turned(x))


def turned(x: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(-1)
    y = centred @ axes
    return y * torch.where(y.pow(3).sum(1, keepdim=True) < 0, -1.0, 1.0)


def scaled(y: Tensor) -> Tensor:
    return y / y.square().sum((1, 2), keepdim=True).div(y.shape[1]).sqrt()


def by_op(x: Tensor, op: Callable[..., Any] = principal_axes) -> Tensor:
    count, points = x.shape[:2]
    ptr = torch.arange(count + 1) * points
    return op(x.view(-1, 3), ptr, None, True, 1, 1, 1e-6, 1e-6)[0].view_as(x)


def by_reference(x: Tensor) -> Tensor:
    return by_op(x, principal_axes_reference)


def by_default(x: Tensor) -> Tensor:
    return mds.embed(x).y


def by_embed(x: Tensor) -> Tensor:
    return mds.embed(x, scale="rms", options=QUIET).y


PEERS: dict[str, Callable[[Tensor], Tensor]] = {
    "embed": by_default,
    "eager": eager,
    "eager float32": eager_float32,
    "op rms": by_op,
    "embed rms": by_embed,
    "eager rms": eager_rms,
    "eager rms float32": eager_rms_float32,
}


def expected(name: str, x: Tensor) -> Tensor:
    return eager_rms(x) if "rms" in name else eager(x)


# One of 4096 random clouds is close to a symmetry.
@pytest.mark.filterwarnings("ignore:1 of 4096 clouds:UserWarning")
@pytest.mark.parametrize("peer", [*PEERS, "reference rms"])
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
def bench_embed(benchmark, shape, kind, peer):
    x, run = clouds(*shape), PEERS.get(peer, by_reference)
    torch.testing.assert_close(run(x), expected(peer, x), rtol=1e-4, atol=1e-3)
    direction = torch.linspace(-1, 1, x.numel()).view_as(x)

    def both() -> Any:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(run(leaf), leaf, direction)

    def forward() -> Any:
        with torch.no_grad():
            return run(x)

    call, factor = (forward, 2) if kind == "forward" else (both, 5)
    record(benchmark, call, "point", x.shape[0] * x.shape[1], factor * 4 * x.numel())


@pytest.mark.parametrize("peer", ["ours", "eigh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", [2, 3])
def bench_symmetric_eigen(benchmark, size, dtype, peer):
    matrix = torch.randn(
        MATRICES, size, size, dtype=dtype, generator=torch.Generator().manual_seed(size)
    )
    matrix = matrix + matrix.mT
    values, vectors = symmetric_eigen(matrix)
    residual = matrix @ vectors - vectors * values[:, None]
    assert float(residual.abs().max()) < 100 * torch.finfo(dtype).eps
    call = symmetric_eigen if peer == "ours" else torch.linalg.eigh
    record(benchmark, lambda: call(matrix), "row", MATRICES)


@pytest.fixture
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def bench_one_large_cloud(benchmark, dtype, threads):
    torch.set_num_threads(threads)
    x = clouds(1, LARGE)[0].to(dtype)
    moved = 2 * x.numel() * x.element_size()
    record(benchmark, lambda: by_default(x), "point", len(x), moved)
