"""Lifting of clouds: compilation, and centres without neighbours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equigeo.affine import PointLiftConv, PointNeighborhood
from equigeo.groups import SO, GLPlus, LinearGroup, finite_rotations
from equigeo.reps import TensorRep
from tests.affine.points.test_point_group_conv import EXACT, Network, draw, random


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
@pytest.mark.parametrize("group", [SO(3), GLPlus(3)], ids=str)
def test_lifting_compiles(group: LinearGroup) -> None:
    net, samples = Network(group), draw(group)

    def call(f: Tensor, points: Tensor) -> Tensor:
        return net.lift(f, points, samples)[0].sin()

    inputs = random(2, 2, 20), random(2, 20, 3, seed=1)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), call(*inputs), **EXACT)


def test_centres_without_neighbours_are_zero_and_finite() -> None:
    layer = PointLiftConv(SO(3), 1, 2, neighborhood=PointNeighborhood(0.5, 4))
    points = torch.zeros(1, 3, 3).requires_grad_()
    centers = torch.tensor([[[5.0, 0, 0], [0, 0, 0]]])
    y, _ = layer(torch.ones(1, 1, 3), points, finite_rotations("dihedral"), centers)
    y.sum().backward()
    assert bool((y[..., 0] == 0).all())
    assert torch.isfinite(y).all()
    assert torch.isfinite(points.grad).all()


@pytest.mark.parametrize(
    "rep",
    [
        TensorRep(GLPlus(3)),
        TensorRep(GLPlus(3), up=1, down=1, density=0.5),
    ],
    ids=str,
)
def test_lifting_reads_fields_of_tensors(rep: TensorRep) -> None:
    torch.manual_seed(0)
    near = PointNeighborhood(0.7, 8)
    layer = PointLiftConv(GLPlus(3), 2, 4, neighborhood=near, rep_in=rep).double()
    samples, points = draw(GLPlus(3)), random(2, 30, 3, seed=1)
    fields = random(2, 2, 30, rep.dim)
    a, b = GLPlus(3).sample(1, radius=0.5)[0], torch.randn(3, dtype=torch.float64)

    def lift(values: Tensor, places: Tensor, moved: bool) -> Tensor:
        x = values.permute(0, 1, 3, 2).flatten(1, 2)
        return layer(x, places, samples.act(a) if moved else samples)[0]

    expected = lift(fields, points, moved=False)
    moved = lift(rep.act(a, fields), points @ a.mT + b, moved=True)
    torch.testing.assert_close(moved, expected, **EXACT)
    still = lift(fields, points @ a.mT + b, moved=True)
    assert float((still - expected).detach().abs().max()) > 1e-2
