"""Lifting, neighbours and farthest points of clouds."""

import pytest
import torch
from torch import Tensor

from equigeo.affine import PointLiftConv, PointNeighborhood
from equigeo.affine.point_neighbors import PointNeighbors, farthest_points
from equigeo.groups import SO, Affine, GLPlus, GroupSamples, finite_rotations, haar_rotations
from equigeo.reps import TensorRep
from tests.affine.test_point_group_conv import EXACT, Network, act, draw, elements, random
from tests.wrong_inputs import refused


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_lifting_over_stretches_compiles() -> None:
    net, samples = Network(GLPlus(3)), draw(GLPlus(3))

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
    "rep", [TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=1, down=1, density=0.5)], ids=str
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


pytestmark = pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")


def test_euclidean_neighbours_are_not_equivariant_to_shears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = PointNeighborhood.find

    def euclidean(
        self: PointNeighborhood, samples: GroupSamples, positions: Tensor, *rest: Tensor
    ) -> PointNeighbors:
        weight = torch.ones(1, dtype=torch.float64)
        identity = GroupSamples.from_elements(
            SO(3), torch.eye(3, dtype=torch.float64)[None], weight
        )
        plain = find(self, identity, positions, *rest)
        u = plain.u.expand(-1, len(samples), -1, -1, -1) @ samples.h_inv.mT[:, None]
        return PointNeighbors(plain.indices, plain.weight, u)

    monkeypatch.setattr(PointNeighborhood, "find", euclidean)
    net, samples = Network(GLPlus(3)), draw(GLPlus(3))
    f, points = random(1, 2, 30), random(1, 30, 3, seed=1)
    turn = Affine(GLPlus(3)).element(haar_rotations(3, 1).h[0], torch.zeros(3).double())
    shear = elements(GLPlus(3))[1]
    errors = []
    for g in (turn, shear):
        moved = samples.act(g)
        change = net(f, act(g, points), moved, moved) - net(f, points, samples, samples)
        errors.append(float(change.detach().abs().max()))
    assert errors[0] < EXACT["atol"]
    assert errors[1] > 1e-3


def test_all_points_inside_the_radius_are_read() -> None:
    points = random(2, 40, 3)
    samples = draw(GLPlus(3))
    found = PointNeighborhood(1.0, None).find(samples, points)
    few = PointNeighborhood(1.0, 40).find(samples, points)
    torch.testing.assert_close(found.weight.sum(-1), torch.ones(2, 3, 40).double(), **EXACT)
    inside = found.u.norm(dim=-1) <= 1
    assert torch.equal(found.weight > 0, inside)
    assert torch.equal(inside.sum(-1), (few.weight > 0).sum(-1))


def test_farthest_points_spread() -> None:
    points = random(2, 60, 3)
    few, many = farthest_points(points, 5), farthest_points(points, 20)
    assert torch.equal(many[:, :5], few)
    assert all(len(set(row.tolist())) == 20 for row in many)
    order = torch.randperm(60)
    assert torch.equal(order[farthest_points(points[:, order], 20)], many)
    with pytest.raises(ValueError, match="count must be"):
        farthest_points(points, 61)


def test_clouds_may_lie_anywhere() -> None:
    points = random(2, 60, 3)
    far = 2 * points + torch.tensor([5.0, -3.0, 8.0], dtype=torch.float64)
    assert torch.equal(farthest_points(far, 20), farthest_points(points, 20))


def test_wrong_arguments_raise():
    refused("must be positive", PointNeighborhood, k=0)
    refused("must be positive", PointNeighborhood, radius=0.0)
    refused(r"points must be \(B, P, C\), got \(5, 3\)", farthest_points, torch.rand(5, 3), 2)
