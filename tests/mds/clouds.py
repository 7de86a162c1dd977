"""Clouds whose embeddings are known, and rigid motions."""

import math

import torch
from torch import Tensor

from equigeo.groups import SO, O
from equigeo.mds import EmbedOptions
from tests.draws import generator

QUIET = EmbedOptions(fallback="ignore")


def generic(points: int = 40, dim: int = 3, seed: int = 0, batch: tuple[int, ...] = ()) -> Tensor:
    """Random clouds with spread spectra and skew axes, turned at random."""
    g = generator(seed)
    x = torch.randn(*batch, points, dim, generator=g, dtype=torch.float64)
    x = (x + 0.3 * x.square()) * torch.logspace(0, -0.3 * (dim - 1), dim, dtype=torch.float64)
    turn = motions(1, dim, seed=seed)[0] if dim > 1 else torch.ones(1, 1, dtype=torch.float64)
    return x @ turn + 1.5


def motions(count: int, dim: int = 3, seed: int = 1, proper: bool = False) -> Tensor:
    return (SO(dim) if proper else O(dim)).haar(count, generator=generator(seed))


def box(*edges: float) -> Tensor:
    sides = [torch.tensor([-e / 2, e / 2], dtype=torch.float64) for e in edges]
    return torch.cartesian_prod(*sides)


def turned(x: Tensor, seed: int = 3) -> Tensor:
    return x @ motions(1, x.shape[-1], seed)[0].mT + 0.7


def distances(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


CUBE = box(1, 1, 1)
TETRAHEDRON = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()
OCTAHEDRON = torch.cat([torch.eye(3), -torch.eye(3)]).double()
_PHI = (1 + math.sqrt(5)) / 2
ICOSAHEDRON = torch.tensor(
    [
        p
        for a in (-1.0, 1.0)
        for b in (-_PHI, _PHI)
        for p in ((0.0, a, b), (a, b, 0.0), (b, 0.0, a))
    ],
    dtype=torch.float64,
)
PYRAMID = torch.tensor([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 2]]).double()
DISPHENOID = torch.tensor([[3, 2, 1], [3, -2, -1], [-3, 2, -1], [-3, -2, 1]]).double()
PATH = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]).double()
TRIANGLE = torch.tensor([[0, 0], [4, 0], [0, 3]]).double()
PLANAR = torch.tensor([[0, 0, 0], [4, 0, 0], [0, 3, 0], [1, 5, 0], [2, 2, 0]]).double()
LINE = torch.tensor([[0.0], [1.0], [3.0]]).double() * torch.tensor([1.0, 2.0, 2.0]).double()


def mirror(seed: int = 5) -> Tensor:
    """A cloud with one mirror plane, otherwise generic."""
    half = generic(9, 3, seed) * torch.tensor([1.0, 0.8, 1.7])
    return torch.cat([half, half * torch.tensor([1.0, 1.0, -1.0])])


def polygon(n: int, radius: float = 1.0) -> Tensor:
    angles = 2 * math.pi * torch.arange(n, dtype=torch.float64) / n
    return radius * torch.stack([angles.cos(), angles.sin()], -1)
