import pytest
import torch
from torch.testing import assert_close

from equigeo.ops import grid_product
from equigeo.ops.geometry.grid_product import SeparableTransform
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


def arguments(lmax: int = 1, latitudes: int = 2, longitudes: int = 4) -> dict[str, torch.Tensor]:
    d, orders = (lmax + 1) ** 2, 2 * lmax + 1
    tables = {}
    for name in ("x", "y", "z"):
        tables[f"legendre_{name}"] = randn(1, d, latitudes)
        tables[f"trig_{name}"] = randn(1, orders, longitudes)
    return {"x": randn(3, d), "y": randn(3, d), **tables}


@pytest.mark.parametrize("summands", [1, 2])
@pytest.mark.parametrize("lmax", [0, 1, 3])
def test_is_the_trilinear_form_of_its_tables(lmax, summands):
    d, order = (lmax + 1) ** 2, [lmax + m for l in range(lmax + 1) for m in range(-l, l + 1)]
    tables = [randn(summands, size, n) for _ in "xyz" for size, n in ((d, 3), (2 * lmax + 1, 5))]
    full = [
        torch.einsum("sab,sac->sabc", legendre, trig[:, order])
        for legendre, trig in zip(tables[::2], tables[1::2], strict=True)
    ]
    x, y = randn(4, d), randn(4, d)
    want = torch.einsum("na,nb,sapq,sbpq,scpq->nc", x, y, *full)
    assert_close(grid_product(x, y, *tables), want)


@pytest.mark.parametrize(("of_legendre", "of_trig"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("lmax", [0, 2, 5])
def test_analyze_is_the_transpose_of_evaluate(lmax, of_legendre, of_trig):
    pair = randn(of_legendre, (lmax + 1) ** 2, 4), randn(of_trig, 2 * lmax + 1, 7)
    separable = SeparableTransform(*pair)
    x, values = randn(3, (lmax + 1) ** 2), randn(of_legendre, 3, 4, 7)
    left, right = (separable.evaluate(x) * values).sum(), (x * separable.analyze(values)).sum()
    assert_close(left, right, **tolerance(torch.float64, terms=1000, condition=10))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": randn(3, 4).long()}, TypeError, "x must be float32 or float64, bfloat16 or float16"),
        ({"x": randn(4)}, ValueError, r"x must be \(samples, coefficients\), got shape \(4,\)"),
        ({"y": randn(2, 4)}, ValueError, "y must have the 3 samples of x, got 2"),
        ({"y": randn(3, 9)}, ValueError, "y must have 4 coefficients to fit legendre_y, got 9"),
        ({"y": randn(3, 4).float()}, TypeError, "y must have the dtype of x, torch.float64"),
        ({"trig_z": randn(1, 3, 4).float()}, TypeError, "trig_z must have the dtype of x"),
        ({"trig_z": randn(1, 3, 5)}, ValueError, "trig_z must be for a grid of 4 .* got 5"),
        ({"legendre_y": randn(1, 4, 3)}, ValueError, "legendre_y must be for a grid of 2"),
        ({"legendre_x": randn(1, 5, 2)}, ValueError, r"\(L \+ 1\)\^2 coefficients .* got 5 and 3"),
        ({"trig_x": randn(1, 5, 4)}, ValueError, r"2 L \+ 1 orders, got 4 and 5"),
        ({"trig_x": randn(2, 3, 4)}, ValueError, "must both have 1 or 2 summands, got 1 and 2"),
        ({"trig_x": randn(3, 4)}, ValueError, r"trig_x must be \(summands, orders, longitudes\)"),
        ({"y": randn(3, 4).to("meta")}, ValueError, "y must be on the device of x, cpu, got meta"),
    ],
)
def test_what_does_not_fit_is_named(change, error, message):
    with pytest.raises(error, match=message):
        grid_product(**{**arguments(), **change})
