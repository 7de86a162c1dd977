"""SwiGLU on the sphere: the formula on e3nn's grids, and no error of equivariance."""

import math

import pytest
import torch
from e3nn import o3
from torch.nn.functional import silu

from equigeo.reps import Irreps
from equigeo.tensor_products import GauntTensorProduct, S2SwiGLU, SphereGrid
from equigeo.tensor_products.signals.channel_signals import ChannelSignals
from equigeo.tensor_products.signals.grid_method import GridMethod, analysis, synthesis
from equigeo.testing import assert_equivariant, equivariance_error, tolerance

DOUBLE = torch.float64
layouts = pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def channels(number: int, lmax: int) -> str:
    return "+".join(f"{number}x{l}y" for l in range(lmax + 1))


@layouts
@pytest.mark.parametrize("lmax", [1, 2, 4, 6])
def test_commutes_with_rotations_and_reflections(lmax, layout):
    layer = S2SwiGLU(channels(3, lmax), layout=layout)
    assert_equivariant(layer, inputs=[random(6, layer.irreps_in.dim)])


@pytest.fixture
def double_by_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(DOUBLE)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize(("lmax", "rows", "columns"), [(2, 8, 7), (4, 14, 13), (6, 20, 19)])
def test_the_formula_on_grids_of_e3nn(lmax, rows, columns, double_by_default):
    to_grid = o3.ToS2Grid(lmax, (rows, columns))
    from_grid = o3.FromS2Grid((rows, columns), lmax)
    layer = S2SwiGLU(channels(2, lmax), layout="ir_mul")
    x = random(3, layer.irreps_in.dim)
    s1, s2, t = x[:, :6].view(3, 3, 2).unbind(1)
    p, q = x[:, 6:].view(3, (lmax + 1) ** 2, 2, 2).movedim(1, -1).unbind(1)
    want = from_grid(to_grid(p) * to_grid(q)) * t.sigmoid()[..., None]
    want[..., 0] += silu(s1) * s2
    found = layer(x).view(3, -1, 2).mT
    torch.testing.assert_close(found, want, **tolerance(DOUBLE, rows * columns))


@pytest.mark.parametrize(
    ("lmax", "enough", "rows", "columns"),
    [
        (2, (8, 7), (6, 7, 1e-2), (8, 6, 0.2)),
        (4, (14, 13), (12, 13, 9e-4), (14, 12, 0.07)),
        (6, (20, 19), (18, 19, 3e-4), (20, 18, 0.05)),
    ],
)
def test_how_many_rows_and_columns_a_product_needs(lmax, enough, rows, columns):
    x, y = random(20, (lmax + 1) ** 2), random(20, (lmax + 1) ** 2, seed=1)
    rep = Irreps.signal(lmax)

    def error(latitudes: int, longitudes: int) -> float:
        grid = SphereGrid.fejer(latitudes, longitudes)
        values = synthesis(grid.harmonics(lmax), "norm")
        product = GridMethod(values, values, analysis(grid, lmax, "norm"))
        return equivariance_error(product, (rep, rep), rep, inputs=[x, y])

    assert error(*enough) < tolerance(DOUBLE, math.prod(enough))["atol"]
    # the largest of twenty, where the specification has one of other random numbers
    for latitudes, longitudes, expected in (rows, columns):
        assert expected / 2 < error(latitudes, longitudes) < expected * 8
        with pytest.raises(ValueError, match="grid must be exact"):
            GauntTensorProduct(lmax, lmax, lmax, grid=SphereGrid.fejer(latitudes, longitudes))


@layouts
def test_layouts_are_one_map(layout):
    rows, columns = S2SwiGLU(channels(3, 2)), S2SwiGLU(channels(3, 2), layout="ir_mul")
    x = random(4, rows.irreps_in.dim)
    found = columns.irreps_out.to_layout(columns(rows.irreps_in.to_layout(x, "ir_mul")), "mul_ir")
    torch.testing.assert_close(found, rows(x), **tolerance(DOUBLE, 64))


def test_zero_functions_leave_the_scalars():
    layer = S2SwiGLU("2x0e+2x1o", layout="ir_mul")
    x = torch.cat([random(1, 6), torch.zeros(1, 16, dtype=DOUBLE)], -1)
    out = ChannelSignals("irreps", layer.irreps_out).split(layer(x))
    torch.testing.assert_close(out[0, :, 0], silu(x[0, :2]) * x[0, 2:4])
    assert out[..., 1:].eq(0).all()


def test_standard_normal_functions_have_values_of_variance_one():
    lmax = 3
    product = GauntTensorProduct(lmax, lmax, 2 * lmax, basis="norm")
    p, q = random(20000, 16), random(20000, 16, seed=1)
    z = product(p, q) / (lmax + 1)  # values of both are divided by the root of L + 1
    norms = torch.cat([torch.full((2 * l + 1,), 1 / (2 * l + 1)) for l in range(2 * lmax + 1)])
    square = (z.square() * norms).sum(-1)
    four_errors = 4 * square.std().item() / len(z) ** 0.5  # of the mean
    assert square.mean().item() == pytest.approx(1, abs=four_errors)


@pytest.mark.parametrize(
    ("irreps", "message"),
    [
        ("2x0o+2x1e", "irreps_out must have scalars 0e, got 2x0o"),
        ("2x0e+1x1o", "irreps_out must be signals on the sphere"),
    ],
)
def test_bad_arguments_are_named(irreps, message):
    with pytest.raises(ValueError, match=message):
        S2SwiGLU(irreps)
