"""Derivatives of every kind through an accelerated model, against the model as it was."""

import copy

import pytest
import torch
from e3nn import nn as e3nn_nn
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from equigeo.interop import accelerate
from tests.interop.e3nn_modules import (
    accelerated_copy,
    build,
    double_precision,
    inputs,
    o3,
    random,
    seeded,
)
from tests.interop.interatomic import close_by_size as close

ATOMS = 5
pytestmark = [pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")]


class Potential(nn.Module):
    """A ``gate_points`` network on harmonics and Gaussians of the vectors between all atoms."""

    def __init__(self):
        from e3nn.nn.models.v2106.gate_points_message_passing import MessagePassing

        super().__init__()
        hidden = "3x0e+2x0o+2x1o+2x1e"
        self.harmonics = o3.SphericalHarmonics("0e+1o+2e", True, "component")
        self.mp = MessagePassing(["2x0e", hidden, hidden, "0e"], "2x0e", "0e+1o+2e", [4, 8], 4.0)
        for layer in (m for m in self.mp.modules() if hasattr(m, "alpha")):
            nn.init.normal_(layer.alpha.weight)
        source, target = torch.cartesian_prod(torch.arange(ATOMS), torch.arange(ATOMS)).T
        self.ends = source[source != target], target[source != target]
        self.features, self.kinds = random(ATOMS, 2, seed=3), random(ATOMS, 2, seed=4)

    def forward(self, positions):
        source, target = self.ends
        vectors = positions[target] - positions[source]
        lengths = vectors.norm(dim=1, keepdim=True)
        radial = torch.exp(-((lengths - torch.arange(4, dtype=lengths.dtype)) ** 2))
        edges = (source, target, self.harmonics(vectors), radial)
        return self.mp(self.features, self.kinds, *edges).sum()


@pytest.fixture(scope="module")
def models():
    with seeded(0):
        theirs = Potential()
    ours, report = accelerated_copy(theirs)
    notes = [note.note for note in report.replaced]
    assert notes.count("equigeo.ops.products.channelwise_conv") == 3
    assert not report.kept
    return ours, theirs


POSITIONS, DIRECTION, OTHER = (random(ATOMS, 3, seed=seed) for seed in (5, 6, 7))


def slope_of(model, positions=POSITIONS):
    positions = positions.clone().requires_grad_()
    return torch.autograd.grad(model(positions), positions)[0]


@pytest.fixture(scope="module")
def curvature(models):
    _, theirs = models
    return torch.autograd.functional.hessian(theirs, POSITIONS)


def test_gradients_and_slopes_in_forward_mode_are_the_same(models):
    ours, theirs = models
    close(grad(ours)(POSITIONS), slope_of(theirs))
    want = (slope_of(theirs) * DIRECTION).sum()
    value, slope = jvp(ours, (POSITIONS,), (DIRECTION,))
    close(value, theirs(POSITIONS))
    close(slope, want)
    with forward_ad.dual_level():
        dual = ours(forward_ad.make_dual(POSITIONS, DIRECTION))
        close(forward_ad.unpack_dual(dual).tangent, want)


def test_hessians_in_every_order_are_the_same(models, curvature):
    ours, _ = models
    for second, first in ((jacfwd, jacrev), (jacrev, jacrev), (jacrev, jacfwd), (jacfwd, jacfwd)):
        close(second(first(ours))(POSITIONS), curvature)
    close(hessian(ours)(POSITIONS), curvature)


def test_hessian_vector_products_are_the_same(models, curvature):
    ours, _ = models
    want = torch.einsum("iajb,jb->ia", curvature, DIRECTION)
    forces, forward_over_reverse = jvp(grad(ours), (POSITIONS,), (DIRECTION,))
    close(forces, slope_of(ours))
    close(forward_over_reverse, want)
    _, pull = vjp(grad(ours), POSITIONS)
    close(pull(DIRECTION)[0], want)
    close(grad(lambda x: jvp(ours, (x,), (DIRECTION,))[1])(POSITIONS), want)
    # As a model that computes its forces itself is asked for a product with its Hessian.
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(POSITIONS.clone().requires_grad_(), DIRECTION)
        (slope,) = torch.autograd.grad(ours(dual), dual, create_graph=True)
        close(forward_ad.unpack_dual(slope).tangent, want)


def test_many_systems_and_many_directions_at_once_are_the_same(models, curvature):
    ours, theirs = models
    systems = torch.stack([POSITIONS, POSITIONS + 0.1 * DIRECTION, POSITIONS - 0.1 * OTHER])
    close(vmap(ours)(systems), torch.stack([theirs(x) for x in systems]))
    close(vmap(grad(ours))(systems), torch.stack([slope_of(theirs, x) for x in systems]))
    directions = torch.stack([DIRECTION, OTHER])
    found = vmap(lambda v: jvp(grad(ours), (POSITIONS,), (v,))[1])(directions)
    close(found, torch.einsum("iajb,vjb->via", curvature, directions))


def test_gradients_by_parameters_are_the_same_for_each_system(models):
    ours, theirs = models
    parameters = dict(ours.named_parameters())
    systems = torch.stack([POSITIONS, POSITIONS + 0.1 * DIRECTION])

    def value(parameters, positions):
        return functional_call(ours, parameters, (positions,))

    found = vmap(grad(value), in_dims=(None, 0))(parameters, systems)
    for n, positions in enumerate(systems):
        slopes = torch.autograd.grad(theirs(positions), list(theirs.parameters()))
        for (name, _), want in zip(theirs.named_parameters(), slopes, strict=True):
            close(found[name][n], want)


def test_members_of_an_ensemble_are_evaluated_together(models):
    ours, theirs = models
    members = [copy.deepcopy(theirs) for _ in range(2)]
    with torch.no_grad():
        for n, member in enumerate(members):
            for parameter in member.parameters():
                parameter.mul_(1.0 + 0.1 * n)
    names = [name for name, _ in theirs.named_parameters()]
    weights = [dict(member.named_parameters()) for member in members]
    stacked = {name: torch.stack([w[name].detach() for w in weights]) for name in names}
    found = vmap(lambda w: functional_call(ours, w, (POSITIONS,)))(stacked)
    close(found, torch.stack([member(POSITIONS) for member in members]))


SOME = ["all connections", "external", "fully connected", "linear, biases", "harmonics"]


@pytest.mark.parametrize("name", [*SOME, "batch norm", "radial", "gate"])
def test_ensembles_are_evaluated_by_stacked_states(name):
    special = {
        "batch norm": lambda: e3nn_nn.BatchNorm("3x0e+2x1o").eval(),
        "radial": lambda: e3nn_nn.FullyConnectedNet([9, 4, 2], torch.tanh),
        "gate": lambda: e3nn_nn.Gate("3x0e", [torch.tanh], "2x0e", [torch.tanh], "2x1o"),
    }
    with double_precision():
        members = [special.get(name, lambda: build(name))() for _ in range(3)]
    for n, member in enumerate(members):
        for parameter in member.parameters():
            nn.init.normal_(parameter, 1.0, 1.0 + n)
    given = inputs(members[0]) if name not in ("batch norm", "radial") else [random(5, 9)]
    want = torch.stack([member(*given) for member in members])
    for member in members:
        assert len(accelerate(member).replaced) == 1
    state = stack_module_state(members)
    found = vmap(lambda p, b: functional_call(members[0], (p, b), tuple(given)))(*state)
    close(found, want)
