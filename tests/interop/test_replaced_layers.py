"""Accelerated radial networks, and random modules of every class, against those of e3nn."""

import copy
import pickle
from random import Random

import pytest
import torch
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate
from torch import nn

from equigeo.interop import accelerate, restore
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import (
    accelerated_copy,
    assert_same_derivatives,
    inputs,
    o3,
    random,
    seeded,
)
from tests.tier import tier

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]

EXACT = tolerance(torch.float64, terms=6 * 16 * 16)  # rows and two layers
SILU = nn.functional.silu
NETWORKS = {
    "as in models": lambda: FullyConnectedNet([8, 16, 16, 5], SILU),
    "variances": lambda: FullyConnectedNet([3, 7, 5], torch.tanh, 2.0, 3.0),
    "function at the end": lambda: FullyConnectedNet([3, 7, 5], torch.tanh, 2.0, 3.0, True),
    "a function that e3nn does not scale": lambda: FullyConnectedNet([3, 7, 5], torch.abs),
    "linear": lambda: FullyConnectedNet([3, 7, 5]),
    "a module": lambda: FullyConnectedNet([3, 7, 5], nn.SiLU()),
    "one layer": lambda: FullyConnectedNet([3, 5], SILU, variance_out=0.5),
}


def build(make):
    with seeded(2):
        return make()


def both(make):
    theirs = build(make)
    ours, report = accelerated_copy(theirs)
    assert [note.note for note in report.replaced] == ["torch, with fewer steps"]
    return ours, theirs


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_network_computes_the_same_to_second_gradients_and_stays_a_sequence(make):
    ours, theirs = both(make)
    for batch in ((6,), (2, 3), (0,), ()):
        assert_same_derivatives(ours, theirs, [random(*batch, theirs.hs[0])], **EXACT)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert len(ours) == len(theirs)
    assert [repr(layer) for layer in ours] == [repr(layer) for layer in theirs]
    assert ours[-1] is list(ours)[-1]
    assert repr(restore(ours) and ours) == repr(theirs)


@pytest.mark.parametrize("make", tier([NETWORKS["as in models"]], [*NETWORKS.values()]))
def test_every_check_of_the_certificate_passes(make):
    report = accelerate(build(make), verify=True)
    assert not report.kept
    assert report.certificate.passes


def test_what_the_ops_do_not_take_goes_the_way_of_before():
    ours, theirs = both(NETWORKS["variances"])
    with pytest.raises(RuntimeError, match="same dtype"):
        ours(random(4, 3).float())
    ours, theirs, x = ours.float(), theirs.float(), random(4, 3).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours(x), theirs(x))


def test_weights_are_read_in_every_call_and_copies_and_other_networks_have_their_own():
    ours, _ = both(NETWORKS["as in models"])
    x = random(4, 8)
    before = ours(x)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        with torch.no_grad():
            other[-1].weight.mul_(2)
        torch.testing.assert_close(other(x), 2 * before, **EXACT)
    other, want = (cls([3, 4, 2], SILU).double() for cls in (type(ours), FullyConnectedNet))
    want.load_state_dict(other.state_dict())
    torch.testing.assert_close(other(x[:, :3]), want(x[:, :3]), **EXACT)
    torch.testing.assert_close(ours(x), before, **EXACT)


EDITS = {
    "del": lambda net: net.__delitem__(slice(1, None)),
    "pop": lambda net: net.pop(-1),
    "append": lambda net: net.append(nn.Tanh()),
    "extend": lambda net: net.extend([nn.Tanh(), nn.Tanh()]),
    "add": lambda net: net.add_module("last", nn.Tanh()),
    "set": lambda net: net.__setitem__(-1, nn.Identity()),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_network_that_is_edited_as_a_sequence_computes_as_before(edit):
    ours, theirs = both(NETWORKS["as in models"])
    for network in (ours, theirs):
        edit(network)
    x = random(4, 8)
    torch.testing.assert_close(ours(x), theirs(x), **EXACT)
    assert len(ours) == len(theirs)
    torch.testing.assert_close(nn.Sequential(*ours.children())(x), theirs(x), **EXACT)


def test_networks_whose_layers_are_watched_or_changed_are_kept():
    def with_parameters():
        return FullyConnectedNet([3, 4, 2], nn.PReLU(dtype=torch.float64))

    def hooked():
        network = FullyConnectedNet([3, 4, 2], SILU)
        network[0].register_forward_hook(lambda *_: None)
        return network

    def replaced():
        network = FullyConnectedNet([3, 4, 2], SILU)
        network.layer1 = nn.Linear(4, 2)
        return network

    def parametrized():
        network = FullyConnectedNet([3, 4, 2], SILU)
        nn.utils.parametrize.register_parametrization(network.layer1, "weight", nn.Identity())
        return network

    notes = {}
    for make in (with_parameters, hooked, replaced, parametrized):
        report = accelerate(make())
        assert not report.replaced
        notes[make.__name__] = report.kept[0].note
    assert notes == {
        "with_parameters": "its activation PReLU has parameters or buffers",
        "hooked": "has a layer with hooks, which would not be called",
        "replaced": "has a layer of class Linear",
        "parametrized": "has a layer of class Parametrized_Layer",
    }


RANDOM = tolerance(torch.float64, terms=2**12)  # paths, channels and components of a result
FUNCTIONS = {1: [torch.tanh, SILU, None, torch.sigmoid], -1: [torch.tanh, torch.abs]}


def irreps(draw, *, most=3, parities=(1, -1), mul=None, degree=None):
    """Up to ``most`` terms of up to three copies, up to degree 2."""
    terms = [
        (mul or draw.randint(1, 3), (draw.randint(0, 2) if degree is None else degree, parity))
        for parity in draw.choices(parities, k=draw.randint(1, most))
    ]
    return o3.Irreps(terms)


def product(draw):
    first, second = irreps(draw), irreps(draw)
    out, paths = [], []
    for i, (mul1, ir1) in enumerate(first):
        for j, (mul2, ir2) in enumerate(second):
            mode = draw.choice(["uvw", "uvu", "uvv", "uuu" if mul1 == mul2 else "uvuv"])
            mul = {"uvw": 2, "uvu": mul1, "uvv": mul2, "uuu": mul1, "uvuv": mul1 * mul2}[mode]
            weighted = mode == "uvw" or draw.random() < 0.7
            paths.append((i, j, len(out), mode, weighted, draw.choice([0.5, 1.0, 2.0])))
            out.append((mul, draw.choice([*(ir1 * ir2)])))
    shared = draw.random() < 0.5
    return o3.TensorProduct(
        first, second, out, paths, shared_weights=shared, internal_weights=shared and None
    )


def linear(draw):
    irreps_in = irreps(draw)
    irreps_out = [(draw.randint(1, 4), ir) for _, ir in irreps_in]  # e3nn fails on lone biases
    return o3.Linear(
        irreps_in,
        irreps_out,
        biases=draw.random() < 0.5,
        path_normalization=draw.choice(["element", "path"]),
    )


def gate(draw):
    gated = irreps(draw)
    gates = o3.Irreps([(mul, (0, 1)) for mul, _ in gated])
    scalars = irreps(draw, degree=0)
    acts = [draw.choice(FUNCTIONS[ir.p]) for _, ir in scalars]
    return Gate(scalars, acts, gates, [torch.sigmoid for _ in gates], gated)


def harmonics(draw):
    degrees = [draw.randint(0, 5) for _ in range(draw.randint(1, 4))]
    normalization = draw.choice(["component", "norm", "integral"])
    return o3.SphericalHarmonics(degrees, draw.random() < 0.5, normalization)


def network(draw):
    sizes = [draw.randint(1, 6) for _ in range(draw.randint(2, 4))]
    return FullyConnectedNet(sizes, torch.tanh, draw.choice([1, 2]), 2, draw.random() < 0.5)


def norm(draw):
    affine, normalization = draw.random() < 0.5, draw.choice(["component", "norm"])
    module = BatchNorm(irreps(draw), affine=affine, normalization=normalization)
    return module.train(draw.random() < 0.5)


KINDS = {
    "product": product,
    "fully connected": lambda draw: o3.FullyConnectedTensorProduct(*(irreps(draw) for _ in "abc")),
    "full": lambda draw: o3.FullTensorProduct(irreps(draw, most=2), irreps(draw, most=2)),
    "elementwise": lambda draw: o3.ElementwiseTensorProduct(irreps(draw, most=1, mul=3), "3x1o"),
    "square": lambda draw: o3.TensorSquare(irreps(draw, most=2), draw.choice([None, "2x0e+1o+2e"])),
    "linear": linear,
    "harmonics": harmonics,
    "gate": gate,
    "network": network,
    "norm": norm,
}


def arguments(module):
    if isinstance(module, FullyConnectedNet):
        return [random(7, module.hs[0])]
    return [random(7, module.irreps.dim)] if isinstance(module, BatchNorm) else inputs(module)


def evaluate(module, given):
    leaves = [*(value.detach().requires_grad_() for value in given), *module.parameters()]
    out = module(*leaves[: len(given)])
    slopes = [torch.zeros_like(leaf) for leaf in leaves]
    if out.requires_grad:
        total = (out * random(*out.shape, seed=9)).sum()
        slopes = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    statistics = [value for name, value in module.named_buffers() if name.startswith("running")]
    return [out, *slopes, *statistics]


@pytest.mark.parametrize("kind", KINDS)
def test_random_modules_compute_the_same(kind):
    for seed in range(tier(5, 200)):
        with seeded(seed):
            theirs = KINDS[kind](Random(seed))
        ours, report = accelerated_copy(theirs)
        assert len(report.replaced) == 1, (seed, report.kept)
        given = arguments(theirs)
        for got, want in zip(evaluate(ours, given), evaluate(theirs, given), strict=True):
            torch.testing.assert_close(got, want, **RANDOM, msg=lambda m, s=seed: f"seed {s}: {m}")
