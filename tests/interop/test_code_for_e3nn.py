"""Code written for e3nn runs with this library after its import lines are changed."""

from types import SimpleNamespace

import pytest
import torch
from e3nn import nn as e3nn_nn

from equigeo import nn, tensor_products
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import o3

LAYERS = "FullyConnectedTensorProduct TensorProduct spherical_harmonics".split()
THEIRS = SimpleNamespace(
    Irreps=o3.Irreps,
    Linear=o3.Linear,
    Gate=e3nn_nn.Gate,
    **{name: getattr(o3, name) for name in LAYERS},
)
OURS = SimpleNamespace(
    Irreps=Irreps,
    Linear=nn.Linear,
    Gate=nn.Gate,
    **{name: getattr(tensor_products, name) for name in LAYERS},
)
TETRIS = [
    [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)],
    [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, -1, 0)],
    [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)],
]


def weigh(layer):
    """Set internal weights to fixed values."""
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, layer.weight.numel()).view_as(layer.weight))
    return layer


def count_and_slice(lib):
    irreps = lib.Irreps("3x0o + 7x0e + 5x1o + 5x2o")
    hidden = (irreps + 2 * lib.Irreps("1o + 0e")).sort().irreps.simplify()
    assert hidden == lib.Irreps("3x0o+9x0e+7x1o+5x2o")
    degrees = [f"{mul} of degree {ir.l}" for mul, ir in irreps if mul > 3 and ir.p == -1]
    numbers = irreps.dim, irreps.num_irreps, irreps.lmax, irreps.ls, irreps.count("1o"), len(irreps)
    torch.manual_seed(0)
    x = irreps.randn(4, -1, normalization="norm")
    terms = zip(irreps.slices(), irreps, strict=True)
    scaled = torch.cat([x[:, place] * ir.dim**0.5 for place, (_, ir) in terms], dim=1)
    return ("2o" in hidden, "1e" in hidden, str(irreps[1:3]), degrees, numbers), scaled


def change_parity(lib):
    """Rotations only: forget the parity of a layer's irreps."""
    irreps = lib.Irreps("2x0e + 2x1o + 1x2e")
    even = lib.Irreps([(mul, (ir.l, 1)) for mul, ir in irreps])
    product = weigh(lib.FullyConnectedTensorProduct(even, even, "1e"))
    x = torch.linspace(-1, 1, 2 * irreps.dim).view(2, -1)
    return str(even), product(x, x.flip(1))


def convolve(lib):
    """Weights of every edge from its length, sums at targets."""
    irreps_in, irreps_sh, irreps_out = map(
        lib.Irreps, ("4x0e + 2x1e", "0e + 1o + 2e", "3x0e + 2x1e")
    )
    product = lib.FullyConnectedTensorProduct(
        irreps_in, irreps_sh, irreps_out, shared_weights=False
    )
    torch.manual_seed(1)
    pos, source, target = torch.randn(6, 3), *torch.randint(6, (2, 20))
    vec = pos[source] - pos[target]
    sh = lib.spherical_harmonics(irreps_sh, vec, normalize=True, normalization="component")
    weight = vec.norm(dim=1, keepdim=True) * torch.linspace(-1, 1, product.weight_numel)
    messages = product(irreps_in.randn(6, -1)[source], sh, weight)
    sums = torch.zeros(6, irreps_out.dim).index_add(0, target, messages)
    return str(product.irreps_out), sums / 20**0.5


def convolve_channels(lib):
    """Paths of every irrep that the output needs, in sorted order, and a linear layer."""
    irreps_in, irreps_sh, irreps_out = map(
        lib.Irreps, ("4x0e + 4x1o", "0e + 1o + 2e", "2x0e + 3x1o")
    )
    irreps_mid, instructions = [], []
    for i, (mul, ir_in) in enumerate(irreps_in):
        for j, (_, ir_sh) in enumerate(irreps_sh):
            for ir_out in ir_in * ir_sh:
                if ir_out in irreps_out or ir_out == (2, 1):
                    instructions.append((i, j, len(irreps_mid), "uvu", True))
                    irreps_mid.append((mul, ir_out))
    irreps_mid, p, _ = lib.Irreps(irreps_mid).sort()
    instructions = [(i, j, p[k], mode, train) for i, j, k, mode, train in instructions]
    product = lib.TensorProduct(
        irreps_in, irreps_sh, irreps_mid, instructions, internal_weights=False, shared_weights=False
    )
    linear = weigh(lib.Linear(irreps_mid.simplify(), irreps_out))
    torch.manual_seed(1)
    sh = lib.spherical_harmonics(irreps_sh, torch.randn(5, 3), True, normalization="component")
    x, weight = irreps_in.randn(5, -1), torch.randn(5, product.weight_numel)
    return str(irreps_mid), linear(product(x, sh, weight))


def gate(lib):
    irreps = lib.Irreps("4x0e + 2x0o + 3x1o + 2x2e")
    scalars = lib.Irreps([(mul, ir) for mul, ir in irreps if ir.l == 0])
    gated = lib.Irreps([(mul, ir) for mul, ir in irreps if ir.l > 0])
    gates = lib.Irreps(f"{gated.num_irreps}x0e")
    acts = [{1: torch.relu, -1: torch.tanh}[ir.p] for _, ir in scalars]
    layer = lib.Gate(scalars, acts, gates, [torch.sigmoid], gated)
    assert layer.irreps_in == (scalars + gates + gated).sort().irreps.simplify()
    assert layer.irreps_out.dim == irreps.dim
    return str(layer.irreps_in), layer(torch.linspace(-1, 1, layer.irreps_in.dim))


def classify_pieces(lib):
    """A polynomial of the directions between cubes, with a pseudoscalar for mirror images."""
    irreps_sh = lib.Irreps("0e + 1o + 2e + 3o")
    irreps_mid = lib.Irreps("8x0e + 4x1o + 4x1e + 4x2e + 4x2o")
    first = weigh(lib.FullyConnectedTensorProduct(irreps_sh, irreps_sh, irreps_mid))
    second = weigh(lib.FullyConnectedTensorProduct(irreps_mid, irreps_sh, "0o + 6x0e"))
    pos = torch.tensor(TETRIS, dtype=torch.get_default_dtype())
    vec = pos[:, :, None] - pos[:, None]
    sh = lib.spherical_harmonics(irreps_sh, vec, normalize=False, normalization="component")
    near = (vec.norm(dim=-1) < 1.1)[..., None]
    x = (near * sh).sum(2)
    x = (near * first(x[:, None].expand_as(sh), sh)).sum(2)
    x = (near * second(x[:, None].expand(-1, 4, -1, -1), sh)).sum((1, 2))
    assert x[0, 0].abs() > 0.1
    torch.testing.assert_close(x[0, 0], -x[1, 0])
    return str(first.irreps_out), x


EXAMPLES = (count_and_slice, change_parity, convolve, convolve_channels, gate, classify_pieces)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_same_results(example):
    (facts, got), (theirs, want) = example(OURS), example(THEIRS)
    assert facts == theirs
    # e3nn estimates the constants of both activations of a gate, with errors up to 2e-3
    close = dict(rtol=4e-3, atol=0.0) if example is gate else tolerance(torch.float32, 100)
    torch.testing.assert_close(got, want, **close)
