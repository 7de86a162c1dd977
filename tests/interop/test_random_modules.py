"""Random modules of every class of e3nn that is accelerated, against the originals."""

import copy
from random import Random

import pytest
import torch
from torch import nn

from equigeo.interop import accelerate
from equigeo.interop.optional import require_e3nn
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import float64, inputs, random
from tests.tier import tier

o3 = require_e3nn()
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    pytest.mark.filterwarnings("ignore:.* has no path to .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning"),
]

EXACT = tolerance(torch.float64, terms=2**12)  # paths, channels and components of a result
FUNCTIONS = {1: [torch.tanh, nn.functional.silu, None, torch.sigmoid], -1: [torch.tanh, torch.abs]}


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
        with float64(), torch.random.fork_rng():
            torch.manual_seed(seed)
            theirs = KINDS[kind](Random(seed))
        ours = copy.deepcopy(theirs)
        report = accelerate(ours)
        assert len(report.replaced) == 1, (seed, report.kept)
        given = arguments(theirs)
        for got, want in zip(evaluate(ours, given), evaluate(theirs, given), strict=True):
            torch.testing.assert_close(got, want, **EXACT, msg=lambda m, s=seed: f"seed {s}: {m}")
