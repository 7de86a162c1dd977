"""Convolutions of point clouds: exact where samples move with the cloud, and their neighbors."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from equigeo.affine import (
    GroupPool,
    KernelSpec,
    PointGroupConv,
    PointLiftConv,
    PointNeighborhood,
    Quadrature,
    WindowWarning,
)
from equigeo.affine.point_conv import PointNeighbors, farthest_points
from equigeo.groups import (
    SL,
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    LinearGroup,
    O,
    Similarity,
    finite_rotations,
    haar_rotations,
    pair_samples,
    point_group,
    sample_stretches,
)
from equigeo.reps import Regular, TensorRep
from equigeo.testing import tolerance
from tests.draws import random
from tests.tier import tier
from tests.wrong_inputs import refused

EXACT = tolerance(torch.float64, terms=1024, condition=100.0)
SHEAR = torch.tensor([[1.0, 0.8, 0.0], [0.0, 1.0, -0.5], [0.0, 0.0, 1.0]], dtype=torch.float64)
NEAR = PointNeighborhood(radius=1.2, k=7)

pytestmark = pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")


def draw(group: LinearGroup, count: int = 3, seed: int = 0) -> GroupSamples:
    """A few elements, stretched and turned, of comparable weights."""
    generator = torch.Generator().manual_seed(seed)
    samples = haar_rotations(group.n, count, generator=generator)
    if group.symmetric_dimension > 0:
        stretches = sample_stretches(group, count, 0.3, generator=generator)
        samples = pair_samples(stretches, samples)
    weight = torch.linspace(1, 2, count, dtype=torch.float64)
    return GroupSamples.from_elements(group, samples.h, weight)


def elements(group: LinearGroup) -> Tensor:
    """Two affine maps; for GL+ and SL one is a shear, for O one a reflection."""
    linear = [draw(group, 1, seed=5).h[0]]
    other = draw(group, 1, seed=6).h[0] @ group.components()[-1]
    linear.append(SHEAR if group in (GLPlus(3), SL(3)) else other)
    return Affine(group).element(torch.stack(linear), random(2, group.n, seed=7))


def act(g: Tensor, points: Tensor) -> Tensor:
    return points @ g[:-1, :-1].mT + g[:-1, -1]


class Network(torch.nn.Module):
    """A lifting and a convolution around fewer points."""

    def __init__(self, group: LinearGroup, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        spec = KernelSpec(network="rbf", centers=3, window="none")
        options = {"neighborhood": NEAR, "rank": 3, **options}
        self.lift = PointLiftConv(group, 2, 4, spec, neighborhood=NEAR, rank=3)
        if not options.get("separable", True):
            spec = replace(spec, network="siren")
        self.conv = PointGroupConv(group, 4, 5, spec, **options)
        self.double()

    def forward(self, f: Tensor, p: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        x, inputs = self.lift(f, p, inputs)
        return self.conv(x.sin(), p, inputs, outputs)[0]


GROUPS = [SO(3), O(3), Similarity(3), SL(3), GLPlus(3), GLPlus(2)]


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_is_exact_where_samples_move_with_the_cloud(group: LinearGroup, separable: bool) -> None:
    net = Network(group, separable=separable)
    f, points = random(2, 2, 30), random(2, 30, group.n, seed=1)
    inputs, outputs = draw(group), draw(group, 2, seed=2)
    expected = net(f, points, inputs, outputs)
    assert float(expected.detach().std()) > 1e-3
    for g in elements(group):
        moved = net(f, act(g, points), inputs.act(g), outputs.act(g))
        torch.testing.assert_close(moved, expected, **EXACT)
        fixed = net(f, act(g, points), inputs, outputs)  # the check can fail
        assert float((fixed - expected).detach().abs().max()) > 1e-3


@pytest.mark.parametrize(
    "name", tier(["tetrahedral"], ["dihedral", "tetrahedral", "octahedral", "icosahedral"])
)
@pytest.mark.parametrize("group", [SO(3), SL(3)], ids=str)
def test_finite_rotations_are_exact_by_default(group: LinearGroup, name: str) -> None:
    rotations = finite_rotations(name)
    samples = GroupSamples.from_elements(group, rotations.h, rotations.weight)
    torch.manual_seed(0)
    conv = PointGroupConv(group, 2, 3, separable=False).double()
    f, points = random(1, 2, len(samples), 9), random(1, 9, 3, seed=1)
    expected = conv(f, points, samples)[0]
    for g in elements(group):
        moved = conv(f, act(g, points), samples.act(g))[0]
        torch.testing.assert_close(moved, expected, **EXACT)


CLOSED = [point_group("T_d"), finite_rotations("octahedral")]


@pytest.mark.parametrize("separable", tier([True], [True, False]))
@pytest.mark.parametrize("samples", tier(CLOSED[:1], CLOSED), ids=str)
def test_features_on_closed_sets_are_regular_and_pools_of_them_invariant(
    samples: GroupSamples, separable: bool
) -> None:
    net = Network(samples.group, separable=separable)
    f, points, rep = random(1, 2, 25), random(1, 25, 3, seed=1), Regular(samples)
    expected = net(f, points, samples, samples).detach()
    pools = [GroupPool(kind, measure=True) for kind in ("max", "mean")]
    for h in samples.h[[3, 11, 20]]:
        turned = net(f, points @ h.mT, samples, samples).detach()
        moved = rep.act(h, expected.movedim(2, -1)).movedim(-1, 2)
        torch.testing.assert_close(turned, moved, **EXACT)
        for pool in pools:
            torch.testing.assert_close(pool(turned, samples), pool(expected, samples), **EXACT)
    other = net(f, points @ haar_rotations(3, 1).h[0].mT, samples, samples).detach()
    for pool in pools:
        assert float((pool(other, samples) - pool(expected, samples)).abs().max()) > 1e-5


def test_values_are_means_over_neighbours_of_the_kernel() -> None:
    net, inputs, outputs = Network(GLPlus(3)), draw(GLPlus(3)), draw(GLPlus(3), 2, seed=2)
    points, x = random(9, 3, seed=1), random(4, 3, 9)
    value, _ = net.conv(x[None], points[None], inputs, outputs)
    matrices = net.conv.weight.unflatten(1, (3, 4))
    for a, h_inv in enumerate(outputs.h_inv):
        u = (points - points[2]) @ h_inv.mT / NEAR.radius
        near = u.norm(dim=1).argsort()[: NEAR.k]
        near = near[u[near].norm(dim=1) <= 1]
        s = GLPlus(3).coordinates(h_inv @ inputs.h)
        numbers = net.conv.kernel(u[near])[:, None] * net.conv.group_kernel(s=s)
        kernel = torch.einsum("jbm,mdc->jbdc", numbers, matrices.transpose(0, 1))
        sums = torch.einsum("jbdc,cbj,b->d", kernel, x[:, :, near], inputs.mean_weight)
        torch.testing.assert_close(value[0, :, a, 2], sums / len(near), **EXACT)


def test_chunks_centres_and_order_of_samples_and_points_change_nothing() -> None:
    samples, points = draw(GLPlus(3), 5), random(1, 20, 3, seed=1)
    x = random(1, 4, 5, 20).requires_grad_()
    net = Network(GLPlus(3))
    conv, order = net.conv, torch.tensor([3, 0, 4, 1, 2])
    whole = conv(x, points, samples)[0]
    shuffled = conv(x[:, :, order], points, samples.select(order), samples)[0]
    torch.testing.assert_close(shuffled, whole, **EXACT)
    part = conv(x, points, samples, centers=points[:, 4:9])[0]
    torch.testing.assert_close(part, whole[..., 4:9], **EXACT)
    conv.quadrature = Quadrature(measure=True, chunk=2)
    chunked = conv(x, points, samples)[0]
    torch.testing.assert_close(chunked, whole, **EXACT)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (whole, chunked)]
    torch.testing.assert_close(*gradients, **EXACT)
    f, order = random(1, 2, 20), torch.randperm(20)
    permuted = net(f[..., order], points[:, order], samples, samples)
    torch.testing.assert_close(permuted, net(f, points, samples, samples)[..., order], **EXACT)


@pytest.mark.parametrize("k", [5, None])
def test_masked_points_are_not_seen(k: int | None) -> None:
    net = Network(SO(3), neighborhood=replace(NEAR, k=k))
    net.lift.neighborhood = replace(NEAR, k=k)
    samples = finite_rotations("dihedral")
    f, points = random(1, 2, 12), random(1, 12, 3, seed=1)
    mask = torch.arange(16)[None] < 12
    padded = torch.cat([points, points[:, :4] + 0.01], dim=1)
    padded[0, 13], padded[0, 14] = torch.nan, torch.inf
    more = torch.cat([f, f[..., :4]], dim=2)
    more[..., 12], more[..., 15] = torch.nan, torch.inf
    x, _ = net.lift(more, padded, samples, mask=mask, centers=points)
    x = torch.cat([x, x.new_full((*x.shape[:-1], 4), torch.nan)], dim=-1)
    y, _ = net.conv(x.sin(), padded, samples, mask=mask, centers=points)
    torch.testing.assert_close(y, net(f, points, samples, samples), **EXACT)


def test_wrong_arguments_raise():
    lift, conv = PointLiftConv(SO(3), 2, 3), PointGroupConv(SO(3), 2, 3)
    four, points, f = finite_rotations("dihedral"), torch.rand(2, 9, 3), torch.rand(2, 2, 9)
    refused(r"features must be \(2, 2, 9\)", lift, torch.rand(2, 3, 9), points, four)
    refused(r"features must be \(2, 2, 4, 9\)", conv, torch.rand(2, 2, 5, 9), points, four)
    refused(r"positions must be \(batch, points, 3\)", lift, f, torch.rand(2, 9, 2), four)
    refused(r"positions must be \(batch, points, 3\)", lift, f[..., :0], points[:, :0], four)
    refused(r"centers must be \(2, centers, 3\)", lift, f, points, four, torch.rand(1, 4, 3))
    refused("mask must be bool", lift, f, points, four, mask=torch.ones(2, 9))
    refused(r"samples must be of SO\(3\)", lift, f, points, draw(GLPlus(3)))
    refused("measure=True", PointGroupConv, SO(3), 2, 3, quadrature=Quadrature())
    refused("must be positive", PointLiftConv, SO(3), 2, 3, rank=0)
    away = four.to(dtype=torch.float32, device="meta")
    for layer, x in ((lift, f), (conv, torch.rand(2, 2, 4, 9))):
        refused("samples must be on cpu as the layer is, got meta", layer, x, points, away)
    refused("must be positive", PointNeighborhood, k=0)
    refused("must be positive", PointNeighborhood, radius=0.0)
    refused("count must be", farthest_points, points, 10)
    refused(r"points must be \(B, P, C\), got \(5, 3\)", farthest_points, torch.rand(5, 3), 2)
    stretched = draw(GLPlus(3))
    with pytest.warns(WindowWarning, match="only approximate"):
        PointGroupConv(GLPlus(3), 1, 1)(torch.ones(2, 1, 3, 9), points, stretched)


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


def test_euclidean_neighbours_are_not_equivariant_to_shears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = PointNeighborhood.find

    def euclidean(
        self: PointNeighborhood, samples: GroupSamples, positions: Tensor, *rest: Tensor
    ) -> PointNeighbors:
        weight = torch.ones(1, dtype=torch.float64)
        eye = torch.eye(3, dtype=torch.float64)[None]
        identity = GroupSamples.from_elements(SO(3), eye, weight)
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


def test_farthest_points_spread_wherever_clouds_lie() -> None:
    points = random(2, 60, 3)
    few, many = farthest_points(points, 5), farthest_points(points, 20)
    assert torch.equal(many[:, :5], few)
    assert all(len(set(row.tolist())) == 20 for row in many)
    order = torch.randperm(60)
    assert torch.equal(order[farthest_points(points[:, order], 20)], many)
    far = 2 * points + torch.tensor([5.0, -3.0, 8.0], dtype=torch.float64)
    assert torch.equal(farthest_points(far, 20), many)
