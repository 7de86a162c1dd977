"""Functions of signals, weights of degrees, and Wigner symbols by independent sums."""

import itertools
import math

import pytest
import torch
from e3nn import nn as e3nn_nn
from e3nn import o3
from torch.nn.functional import silu
from torch.testing import assert_close

from equigeo.nn import NormalizedActivation
from equigeo.reps import Irreps
from equigeo.tensor_products import (
    DegreeWeights,
    GauntTensorProduct,
    S2Activation,
    S2SwiGLU,
    SphereGrid,
)
from equigeo.tensor_products.signals.couplings import wigner_6j, wigner_9j
from equigeo.tensor_products.signals.signal_product import ChannelSignals
from equigeo.testing import assert_equivariant, equivariance_error, tolerance
from tests.draws import double_precision, random
from tests.tensor_products.path_helpers import both_layouts
from tests.tensor_products.signal_helpers import block, couple, fejer, signal
from tests.tensor_products.symbols import allowed, wigner_6j_symbol, wigner_9j_symbol
from tests.wrong_inputs import refused


def weighted(lmax: int, channels: int | None = None, **options: int) -> DegreeWeights:
    module = DegreeWeights(lmax, channels, **options).double()
    numbers = torch.arange(1, module.weight.numel() + 1, dtype=torch.float64)
    module.weight.data.copy_(numbers.view(module.weight.shape).sqrt())
    return module


def test_each_degree_of_each_channel_has_its_weight():
    module, x = weighted(2, channels=3), signal(2, 5, 3)
    for channel in range(3):
        for l in range(3):
            want = module.weight[channel, l] * x[:, channel, block(l)]
            assert_close(module(x)[:, channel, block(l)], want)
    assert_close(DegreeWeights(2, 3).double()(x), x, rtol=0, atol=0)


def test_paths_of_a_product_get_weights_that_factorize():
    first, second, out = weighted(1), weighted(2), weighted(2)
    product = GauntTensorProduct(1, 2, 2)
    x, y = signal(1), signal(2, name="y")
    z = out(product(first(x), second(y)))
    for l3 in range(3):
        want = sum(
            first.weight[l1]
            * second.weight[l2]
            * out.weight[l3]
            * product.coefficient(l1, l2, l3)
            * couple(l1, l2, l3, x, y)
            for l1 in range(2)
            for l2 in range(3)
        )
        assert_close(z[block(l3)], want)


@pytest.mark.parametrize("parity", [1, -1])
@pytest.mark.parametrize("channels", [None, 2])
def test_is_equivariant(channels, parity):
    x = signal(3, 4, 2)
    assert_equivariant(weighted(3, channels, parity=parity), inputs=[x])


CLOSE = tolerance(torch.float64)["rtol"]  # of exact numbers, rounded


@pytest.mark.parametrize("t", range(5))
def test_exact_6j_symbols(t):
    for triple in itertools.product(range(2 * t + 2), repeat=3):
        got = wigner_6j(*triple, t, t, t)
        assert got == pytest.approx(wigner_6j_symbol(*triple, t, t, t), rel=CLOSE, abs=0.0)
        assert got == wigner_6j(triple[1], triple[2], triple[0], t, t, t)


def test_6j_symbols_of_large_degrees_are_orthogonal():
    size = 60
    row = [wigner_6j(size, size, x, size, size, 7) for x in range(2 * size + 1)]
    total = math.fsum((2 * x + 1) * value**2 for x, value in enumerate(row))
    assert 15 * total == pytest.approx(1, rel=CLOSE)


def test_exact_9j_symbols():
    generator = torch.Generator().manual_seed(0)
    nonzero = 0
    for numbers in torch.randint(4, (1000, 3, 3), generator=generator).tolist():
        rows = tuple(map(tuple, numbers))
        if all(allowed(*triad) for triad in (*rows, *zip(*rows, strict=True))):
            # sums of products below one half, in units of 5.6e-17
            assert wigner_9j(*rows) == pytest.approx(wigner_9j_symbol(*rows), abs=1e-15)
            nonzero += wigner_9j(*rows) != 0
        else:
            assert wigner_9j(*rows) == 0
    assert nonzero > 20


def channels(number: int, lmax: int) -> str:
    return "+".join(f"{number}x{l}y" for l in range(lmax + 1))


@pytest.mark.parametrize("lmax", [0, 1, 3])
def test_numbers_of_e3nn(lmax):
    rows, columns = 2 * (lmax + 1), 2 * (lmax + 1) + 1
    irreps = o3.Irreps([(1, (l, (-1) ** l)) for l in range(lmax + 1)])
    theirs = e3nn_nn.S2Activation(irreps, silu, (rows, columns)).double()
    act = NormalizedActivation(silu, scale=float(theirs.act.cst))
    ours = S2Activation(channels(1, lmax), act, grid=fejer(rows, columns))
    x = random(7, (lmax + 1) ** 2)
    # e3nn makes its tables in the default dtype
    assert_close(ours(x), theirs(x), rtol=0, atol=5e-6)


def test_the_identity_is_kept():
    layer = S2Activation(channels(3, 4), NormalizedActivation(torch.clone, scale=1.0))
    x = random(5, layer.irreps_in.dim)
    assert_close(layer(x), x, **tolerance(torch.float64, 512))


@both_layouts
def test_a_square_is_exact_on_a_sufficient_grid(layout):
    layer = S2Activation(channels(3, 2), torch.square, layout=layout)
    assert_equivariant(layer, inputs=[random(6, 27)])


@both_layouts
@pytest.mark.parametrize(("act", "parity"), [(torch.tanh, -1), (torch.abs, 1)])
def test_pseudoscalar_values(act, parity, layout):
    layer = S2Activation("2x0o+2x1e", act, layout=layout, grid=(40, 81))
    assert str(layer.irreps_out) == ("2x0o+2x1e" if parity < 0 else "2x0e+2x1o")
    # a kink at the zero line: the error falls with the square of the spacing
    bound = 2e-2 if act is torch.abs else 1e-9
    assert equivariance_error(layer, inputs=[random(20, 8)]) < bound


# Of the table in the documentation: an upper limit for each, for 100 random functions.
ERRORS = {
    1: {2: 8e-1, 4: 4e-2, 6: 3e-3, 8: 2e-4},
    2: {2: 8e-1, 4: 4e-2, 6: 2e-3, 8: 2e-4},
    4: {2: 8e-1, 4: 2e-2, 6: 1e-3, 8: 6e-5},
    6: {2: 8e-1, 4: 2e-2, 6: 6e-4, 8: 4e-5},
}


@pytest.mark.parametrize("lmax", ERRORS)
def test_error_by_resolution(lmax):
    x = random(100, (lmax + 1) ** 2)
    for multiple, bound in ERRORS[lmax].items():
        grid = SphereGrid.exact(multiple * lmax)
        layer = S2Activation(channels(1, lmax), silu, grid=grid)
        error = equivariance_error(layer, inputs=[x])
        assert bound / 10 < error < bound
        if multiple == 6:
            default = S2Activation(channels(1, lmax), silu)
            assert torch.equal(default(x), layer(x))


@both_layouts
def test_each_channel_by_itself(layout):
    irreps = Irreps(channels(3, 2), layout)
    both, one = S2Activation(irreps, silu, layout=layout), S2Activation(channels(1, 2), silu)
    x = random(4, 27)
    split = ChannelSignals("irreps", irreps).split
    assert_close(split(both(x)), one(split(x)), **tolerance(torch.float64, 256))


@both_layouts
@pytest.mark.parametrize("lmax", [1, 2, 4, 6])
def test_commutes_with_rotations_and_reflections(lmax, layout):
    layer = S2SwiGLU(channels(3, lmax), layout=layout)
    assert_equivariant(layer, inputs=[random(6, layer.irreps_in.dim)])


@pytest.mark.parametrize(("lmax", "rows", "columns"), [(2, 8, 7), (4, 14, 13), (6, 20, 19)])
@double_precision()
def test_swiglu_on_grids_of_e3nn(lmax, rows, columns):
    to_grid = o3.ToS2Grid(lmax, (rows, columns))
    from_grid = o3.FromS2Grid((rows, columns), lmax)
    layer = S2SwiGLU(channels(2, lmax), layout="ir_mul")
    x = random(3, layer.irreps_in.dim)
    s1, s2, t = x[:, :6].view(3, 3, 2).unbind(1)
    p, q = x[:, 6:].view(3, (lmax + 1) ** 2, 2, 2).movedim(1, -1).unbind(1)
    want = from_grid(to_grid(p) * to_grid(q)) * t.sigmoid()[..., None]
    want[..., 0] += silu(s1) * s2
    found = layer(x).view(3, -1, 2).mT
    assert_close(found, want, **tolerance(torch.float64, rows * columns))


def test_layouts_of_swiglu_are_one_map_and_zeros_leave_the_scalars():
    rows, columns = S2SwiGLU(channels(3, 2)), S2SwiGLU(channels(3, 2), layout="ir_mul")
    x = random(4, rows.irreps_in.dim)
    found = columns.irreps_out.to_layout(columns(rows.irreps_in.to_layout(x, "ir_mul")), "mul_ir")
    assert_close(found, rows(x), **tolerance(torch.float64, 64))
    layer = S2SwiGLU("2x0e+2x1o", layout="ir_mul")
    x = torch.cat([random(1, 6), torch.zeros(1, 16, dtype=torch.float64)], -1)
    out = ChannelSignals("irreps", layer.irreps_out).split(layer(x))
    assert_close(out[0, :, 0], silu(x[0, :2]) * x[0, 2:4])
    assert out[..., 1:].eq(0).all()


@pytest.mark.parametrize(
    ("make", "irreps", "message"),
    [
        (S2Activation, "", "irreps must be signals on the sphere with one multiplicity"),
        (S2Activation, "2x0e+3x1o", r"such as 8x0e\+8x1o\+8x2e, got 2x0e\+3x1o"),
        (S2Activation, "2x0e+2x1e", "irreps must be signals"),
        (S2Activation, "2x1o", "irreps must be signals"),
        (S2Activation, "2x0o+2x1e", "silu is neither: its output would have no parity"),
        (S2SwiGLU, "2x0o+2x1e", "irreps_out must have scalars 0e, got 2x0o"),
        (S2SwiGLU, "2x0e+1x1o", "irreps_out must be signals on the sphere"),
    ],
)
def test_irreps_that_are_no_signals_raise(make, irreps, message):
    refused(message, make, irreps, *([silu] if make is S2Activation else []))


def test_inputs_of_degree_weights_that_do_not_fit_raise():
    module = DegreeWeights(1, channels=2)
    refused(r"x must be \(\.\.\., 2, 4\), got \(3, 4\)", module, torch.zeros(3, 4))
    refused("x must have the dtype of weight", module, signal(1, 2), error=TypeError)
    refused("channels must not be negative, got -1", DegreeWeights, 1, -1)
    refused("lmax must be >= 0", DegreeWeights, -1)
