"""Invariant embeddings beside plain PyTorch.

Run with ``make bench``; choose by id, as in ``-k "embed and 64x1024"``. ``op`` is one pass over
the clouds, ``embed`` checks and flags them too, ``eager`` is the shortest chain of PyTorch that
gives the same coordinates, ``reference`` all that the op gives, for ragged clouds as well. Bytes
are those of points and coordinates, each moved once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from record import record
from torch import Tensor

from equigeo import mds
from equigeo.ops import principal_axes, symmetric_eigen
from equigeo.ops._principal_axes import principal_axes_reference

SHAPES = [(4096, 32), (1024, 128), (64, 1024), (32, 2048)]
MATRICES = 100_000
QUIET = mds.EmbedOptions(fallback="ignore")


def clouds(count: int, points: int) -> Tensor:
    x = torch.randn(count, points, 3, generator=torch.Generator().manual_seed(points))
    return (x + 0.2 * x.square()) * torch.tensor([3.0, 2.0, 1.0])


def eager(x: Tensor) -> Tensor:
    """Centre, rotate, fix signs and scale, with sums in float64 as the op."""
    x = x.double()
    centred = x - x.mean(1, keepdim=True)
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(-1)
    y = centred @ axes
    y = y * torch.where(y.pow(3).sum(1, keepdim=True) < 0, -1.0, 1.0)
    return (y / y.square().sum((1, 2), keepdim=True).div(x.shape[1]).sqrt()).float()


def by_op(x: Tensor, op: Callable[..., Any] = principal_axes) -> Tensor:
    count, points = x.shape[:2]
    ptr = torch.arange(count + 1) * points
    return op(x.view(-1, 3), ptr, None, True, 1, 1, 1e-6, 1e-6)[0].view_as(x)


def by_reference(x: Tensor) -> Tensor:
    return by_op(x, principal_axes_reference)


def by_embed(x: Tensor) -> Tensor:
    return mds.embed(x, scale="rms", options=QUIET).y


PEERS: dict[str, Callable[[Tensor], Tensor]] = {
    "op": by_op,
    "embed": by_embed,
    "eager": eager,
    "reference": by_reference,
}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("kind", ["forward", "both"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
def bench_embed(benchmark, shape, kind, peer):
    x, run = clouds(*shape), PEERS[peer]
    torch.testing.assert_close(run(x), eager(x), rtol=1e-4, atol=1e-4)
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def bench_one_large_cloud(benchmark, dtype):
    x = clouds(1, 1_000_000)[0].to(dtype)
    moved = 2 * x.numel() * x.element_size()
    record(benchmark, lambda: by_embed(x), "point", len(x), moved)
