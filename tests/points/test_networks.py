from copy import deepcopy
from functools import cache, partial

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.utils import parametrize, prune
from torch.testing import assert_close

from equigeo.groups import Affine, O
from equigeo.mds import EmbedOptions, Invariant, InvariantPointNet, embed
from equigeo.points import DGCNN, PointNet, PointNetPlusPlus, PointTransformer, nearest_neighbors
from equigeo.points.layers import PointLayer, group_features, largest
from equigeo.points.networks import EdgeConv, _largest
from equigeo.reps import Points, Trivial
from equigeo.tasks.common.measures import cloud_copies
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.mds.clouds import generator
from tests.tier import tier
from tests.wrong_inputs import refused

EXACT = {"rtol": 0.0, "atol": 1e-11}
GROUPED = (5, (9, 5), 6, ((8,), (8, 16)), 32, (16,))
SMALL = {
    "pointnet": partial(PointNet, 5, (16, 32), (16,)),
    "pointnet++": partial(PointNetPlusPlus, *GROUPED),
    "pointnet++ published": partial(PointNetPlusPlus, *GROUPED, distances=False),
    "dgcnn": partial(DGCNN, 5, (8, 16), 6, 32, (16,)),
    "transformer": partial(PointTransformer, 5, (9, 5), 6, 8, 2, 32, (16,)),
}
NETWORKS = pytest.mark.parametrize("name", list(SMALL))


@cache
def _fitted(name, dim):
    g = generator()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SMALL[name](dim=dim).double()
        for _ in range(20):
            model(torch.randn(8, 30, dim, generator=g, dtype=torch.float64))
    return model.eval()


def network(name, dim=3):
    """A network with drawn weights whose statistics are not the initial ones."""
    return deepcopy(_fitted(name, dim))


def clouds(count=4, points=30, dim=3):
    """Clouds without symmetry, whose embedding is stable."""
    x = torch.rand(count, points, dim, generator=generator(), dtype=torch.float64)
    return x.square() * torch.arange(dim, 0, -1)


@NETWORKS
def test_logits_do_not_depend_on_order_and_batch_axes_and_dimensions_are_free(name):
    model, x = network(name), clouds()
    y = model(x)
    assert y.shape == (4, 5)
    assert_close(model(x[:, torch.randperm(30, generator=generator())]), y, **EXACT)
    assert (y[0] - y[1]).abs().max() > 1e-3
    model, x = network(name), clouds()
    assert_close(model(x.view(2, 2, 30, 3)), model(x).view(2, 2, 5), **EXACT)
    assert_close(model(x[0]), model(x)[0], **EXACT)
    flat = network(name, dim=2)
    assert flat(clouds(dim=2)).shape == (4, 5)
    assert model(x[:, :1]).isfinite().all()
    assert model(torch.zeros(2, 30, 3).double()).isfinite().all()


@NETWORKS
def test_padding_is_no_part_of_the_statistics(name):
    x = clouds()
    short, long = network(name).train(), network(name).train()
    mask = torch.arange(40) < 30
    for module in (*short.modules(), *long.modules()):
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    padded = torch.cat([x, torch.full((4, 10, 3), 9.0)], dim=1)
    assert_close(long(padded, mask.expand(4, -1)), short(x), **EXACT)
    assert_close(dict(short.state_dict()), dict(long.state_dict()), **EXACT)


@NETWORKS
def test_gradients_reach_all_weights_and_an_embedding_makes_networks_invariant(name):
    model, x = network(name).train(), clouds(8).requires_grad_()
    model(x).square().sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().amax() > 0
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())
    alone = network(name)
    model = Invariant(alone).eval()
    law = (Points(Affine(O(3))), Trivial(Affine(O(3)), 5))
    assert_equivariant(lambda x: model(x).detach(), *law, inputs=[clouds(2)], condition=4.0)
    assert equivariance_error(lambda x: alone(x).detach(), *law, inputs=[clouds(2)]) > 1e-3


@NETWORKS
@pytest.mark.parametrize("kind", tier(["skew"], ["skew", "frames"]))
def test_oracle_26_upright_and_rotated_logits_agree(name, kind):
    model = Invariant(network(name).float(), kind=kind).eval()
    x = clouds(40).float()
    result = embed(x)
    steady = (result.margin.abs() >= 1e-3).all(-1) & (result.gap >= 1e-2).all(-1)
    assert steady.sum() >= 30
    for copy in ("rotated", "reflected", "scaled", "translated", "re-ordered"):
        seen, want = model(cloud_copies(x, copy)[steady]), model(x[steady])
        assert_close(seen, want, **tolerance(torch.float32, 32))  # the widest layer
        assert torch.equal(seen.argmax(1), want.argmax(1))
    other = (model(cloud_copies(x, "sheared")) - model(x)).abs().amax()
    assert other > 1e-3


def test_settings_out_of_range_are_named():
    for network, settings, message in (
        (PointNet, {"num_classes": 0}, "num_classes must be positive, got 0"),
        (PointNet, {"widths": ()}, "widths must be positive"),
        (DGCNN, {"neighbors": 0}, "neighbors must be positive"),
        (DGCNN, {"hidden": (8, -1)}, "hidden must be positive"),
        (DGCNN, {"dropout": 1.0}, "dropout must be at least 0"),
        (PointTransformer, {"groups": (8, 0)}, "groups must be positive"),
        (PointNetPlusPlus, {"widths": ((8,), (0,))}, "widths must be positive"),
        (PointNetPlusPlus, {"groups": (8,)}, "equally long"),
        (PointTransformer, {"dim": 0}, "dim must be positive"),
    ):
        refused(message, network, **{"num_classes": 5} | settings)


@pytest.mark.parametrize("name", SMALL)
def test_a_cloud_without_points_is_refused_and_ruins_no_statistics(name):
    net = SMALL[name]()
    refused("with at least one point", net, torch.zeros(2, 0, 3))
    mask = torch.ones(2, 30, dtype=torch.bool)
    mask[0] = False
    for mode in (True, False):
        refused("every cloud must have a point", net.train(mode), torch.randn(2, 30, 3), mask)
    rows = torch.randn(30, 3)
    if name == "pointnet":
        with pytest.raises(ValueError, match="every cloud must have a point"):
            InvariantPointNet.preset("default", 5)(rows, ptr=torch.tensor([0, 15, 15, 30]))
    assert all(value.isfinite().all() for value in net.state_dict().values())


@pytest.mark.parametrize("name", SMALL)
def test_one_cloud_alone_is_refused_in_training_before_any_statistics_change(name):
    net = SMALL[name]().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    rows = torch.randn(30, 3)
    message = r"a training batch must have at least two clouds, got 1: .* model.eval\(\) for pred"
    refused(message, net, rows)
    refused(message, net, rows, ptr=torch.tensor([0, 30]))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.eval()(rows).isfinite().all()


def test_padding_is_silent_in_half_precision():
    net = SMALL["transformer"]().eval()
    x, mask = torch.randn(2, 100, 3, generator=generator(0)), torch.ones(2, 100, dtype=torch.bool)
    mask[0, 6:] = False  # fewer than a group
    want = net(x, mask)
    # Some twenty roundings to eleven bits, of logits of order one.
    assert_close(net.half()(x.half(), mask).float(), want, rtol=0, atol=0.02)


def test_the_convolution_is_that_of_edges():
    conv = network("dgcnn").convolutions[0]
    x = clouds()
    near = nearest_neighbors(x, 6)
    apart = torch.cdist(x, x).topk(6, largest=False)
    assert torch.equal(near, apart.indices)
    edges = torch.stack([x[b, near[b]] - x[b, :, None] for b in range(4)])
    a, b = conv.layer.linear.weight, conv.center.weight
    # W applied to (x_i, x_j - x_i): what meets x_i alone is the sum of both
    values = (edges @ a.mT + (x @ (a + b).mT)[:, :, None]).amax(2)
    assert_close(conv(x), conv.layer.normalize(values), **EXACT)


def test_the_largest_of_rows_is_nan_in_any_order():
    y = torch.tensor([[[1.0], [torch.nan], [3.0], [torch.inf]]])
    near = torch.tensor([[[0, 1, 2], [1, 0, 2], [2, 0, 1], [3, 1, 0], [2, 3, 0], [0, 2, 2]]])
    want = torch.tensor([torch.nan] * 4 + [torch.inf, 3.0])
    assert_close(_largest(y, near).flatten(), want, equal_nan=True, **EXACT)


def test_maxima_are_the_same_with_and_without_derivatives():
    x = torch.randn(2, 50, 8, generator=generator())
    x[0, 3, 0], x[0, 4, 1], x[1, :, 2], x[1, 5, 3] = torch.nan, torch.inf, -torch.inf, -torch.inf
    want = largest(x, 1)
    with torch.no_grad():
        assert_close(largest(x, 1), want, equal_nan=True, rtol=0, atol=0)
        # Of equal elements, one gets the derivative.
        with forward_ad.dual_level():
            equal = forward_ad.make_dual(torch.ones(1, 3), torch.tensor([[0.0, 0.0, 3.0]]))
            assert forward_ad.unpack_dual(largest(equal, 1)).tangent.item() in (0.0, 3.0)
        gradient = torch.func.grad(lambda x: largest(x, 0))(torch.ones(3))
    assert gradient.sort().values.tolist() == [0.0, 0.0, 1.0]


def test_gradients_of_maxima_go_to_one_element_in_every_mode():
    def gradient(x):
        return torch.autograd.grad(largest(x, 1).sum(), x)[0]

    for x in (torch.ones(1, 70_000).half(), torch.tensor([[1.0, torch.nan, 2], [3, 3, 1]])):
        x = x.requires_grad_()
        found = gradient(x)
        assert torch.equal(found, torch.autograd.grad(x.max(1).values.sum(), x)[0])
        assert found.sum(1).eq(1).all()
        assert torch.equal(torch.func.grad(lambda x: largest(x, 1).sum())(x.detach()), found)
        compiled = torch.compile(lambda x: largest(x, 1).sum(), backend="aot_eager")
        assert torch.equal(torch.autograd.grad(compiled(x), x)[0], found)


def test_features_of_points_are_mapped_before_they_are_gathered(monkeypatch):
    layers = torch.nn.ModuleList([PointLayer(8, 8), PointLayer(8, 16)]).double()
    layers[0].linear.register_parameter("bias", torch.nn.Parameter(torch.ones(8).double()))
    near = torch.randint(20, (2, 5, 6), generator=generator())
    y, x = (
        torch.randn(*shape, generator=generator(seed), dtype=torch.float64).requires_grad_()
        for seed, shape in ((1, (2, 5, 6, 3)), (2, (2, 20, 5)))
    )
    for mask in (None, torch.tensor([[True] * 5, [True] * 3 + [False] * 2])):
        joined = torch.cat([y, torch.stack([x[b, near[b]] for b in range(2)])], -1)
        pair = group_features(layers, y, mask, x, near), group_features(layers, joined, mask)
        assert_close(*pair, **EXACT)
        values = [y, x, *layers.parameters()]
        found, want = (torch.autograd.grad(out.sin().sum(), values) for out in pair)
        assert_close(found, want, **EXACT)
    shapes, linear = [], torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda x, *w: shapes.append(x.shape) or linear(x, *w)
    )
    group_features(layers, y, None, x, near)
    assert shapes == [(2, 5, 6, 3), (2, 20, 5), (2, 5, 6, 8)]


class Added(torch.nn.Module):
    """A linear map and an update, as adapters have it."""

    def __init__(self, linear):
        super().__init__()
        self.linear, self.weight = linear, linear.weight

    def forward(self, x):
        return 2 * self.linear(x)


def _wrap(layer):
    layer.linear = Added(layer.linear)


def _weigh(layer):
    layer.linear.register_forward_pre_hook(
        lambda linear, _: linear.__dict__.__setitem__("weight", 2 * linear.original)
    )
    layer.linear.original = layer.linear.weight
    del layer.linear.weight


CHANGES = {
    "adapter": _wrap,
    "hook of a linear map": lambda x: x.linear.register_forward_hook(lambda m, i, y: 2 * y),
    "hook of a layer": lambda x: x.register_forward_hook(lambda m, i, y: 2 * y),
    "weights of a hook": _weigh,
    "parametrization": lambda x: parametrize.register_parametrization(x.linear, "weight", Twice()),
    "forward": lambda x: setattr(x, "forward", lambda *given: 2 * type(x).forward(x, *given)),
}


class Twice(torch.nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_first_layer_of_groups_take_effect(change):
    net, x = network("pointnet++"), clouds()
    before = net(x)
    CHANGES[change](net.groups[1].layers[0])
    assert (net(x) - before).abs().max() > 1e-3


def test_pruned_layers_of_groups_are_trained():
    net, x = network("pointnet++").train(), clouds()
    linear = net.groups[1].layers[0].linear
    prune.l1_unstructured(linear, "weight", 0.5)
    for _ in range(2):
        net(x).square().sum().backward()
        with torch.no_grad():
            linear.weight_orig.sub_(linear.weight_orig.grad)
    net.eval()(x)
    assert torch.equal(linear.weight, linear.weight_orig * linear.weight_mask)


@pytest.mark.parametrize("name", [*SMALL, "convolution"])
def test_exported_networks_are_for_any_number_of_clouds_and_points(name):
    model, dim = (network(name), 3) if name in SMALL else (EdgeConv(16, 8, 4).double().eval(), 16)
    sizes = ({0: torch.export.Dim("clouds"), 1: torch.export.Dim("points", min=16)},)
    program = torch.export.export(model, (clouds(2, 256, dim),), dynamic_shapes=sizes).module()
    for other in (clouds(2, 256, dim), clouds(3, 50, dim)):
        assert_close(program(other), model(other), **EXACT)


@pytest.mark.parametrize("there", [None, 4, 0], ids=["no mask", "a mask", "no group"])
def test_groups_are_the_largest_of_what_layers_make_of_their_members(there):
    layers = torch.nn.ModuleList([PointLayer(3, 8), PointLayer(8, 16)]).double()
    for layer in layers:  # signs of both kinds, so that the norm turns some channels around
        torch.nn.init.normal_(layer.norm.weight, generator=generator())
    y = torch.randn(2, 5, 6, 3, generator=generator(), dtype=torch.float64)
    mask = None if there is None else (torch.arange(5) < there).expand(2, 5)
    if mask is not None and not mask.any():
        layers.eval()  # of no row there are no statistics
    members = None if mask is None else mask[..., None].expand(2, 5, 6)
    one, two = y.clone().requires_grad_(), y.clone().requires_grad_()
    expected = layers[1](layers[0](one, members), members).amax(2)
    found = group_features(layers, two, mask)
    assert torch.equal(found, expected)
    weight = torch.randn(expected.shape, generator=generator(), dtype=torch.float64)
    (of_one,) = torch.autograd.grad((expected * weight).sum(), one)
    (of_two,) = torch.autograd.grad((found * weight).sum(), two)
    assert_close(of_two, of_one, **EXACT)
    assert bool(of_two.any()) == (there != 0)


def test_doubtful_clouds_can_be_averaged_in_use_and_sampled_in_training():
    model = Invariant(
        network("pointnet"),
        kind="frames",
        options=EmbedOptions(fallback="ignore", training_sample=True),
    )
    x = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)]).double()[None]
    x = x + 0.1 * clouds(1, 8)
    assert_close(model.eval()(x), model(x.flip(-1)), **EXACT)
    for module in model.train().modules():
        if isinstance(module, (torch.nn.Dropout, torch.nn.BatchNorm1d)):
            module.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = torch.cat([model(x) for _ in range(64)])
    assert 4 < len(drawn.detach().mul(1e8).round().unique(dim=0)) <= 8
