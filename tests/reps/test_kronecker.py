"""Tensor products of representations: the order of their features."""

from __future__ import annotations

import torch

from equigeo.groups import Group, O
from equigeo.reps import (
    Irreps,
)
from equigeo.testing import tolerance


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


def test_the_first_factor_is_slowest():
    a, b = Irreps("1o"), Irreps("0e+2e")
    g = elements(O(3))
    want = torch.stack([torch.kron(p, q) for p, q in zip(a.matrix(g), b.matrix(g), strict=True)])
    close((a @ b).matrix(g), want)
    x, y = torch.arange(3.0), torch.arange(6.0)
    together = (a @ b).act(g, torch.outer(x, y).flatten())
    moved = (a.act(g, x)[:, :, None] * b.act(g, y)[:, None]).flatten(1)
    torch.testing.assert_close(together, moved, **tolerance(torch.float32, 18))
