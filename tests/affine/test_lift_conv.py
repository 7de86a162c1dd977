"""Lifting against its closed form, and what is exact on grids."""

import pytest
import torch
from torch import Tensor

from equigeo.affine import (
    GroupConv,
    GroupPool,
    KernelSpec,
    LiftConv,
    SeparableGroupConv,
)
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import (
    SO,
    GLPlus,
    GroupSamples,
    LinearGroup,
    equidistant_rotations,
    finite_rotations,
    point_group,
)
from equigeo.reps import Irreps, Points, TensorRep
from equigeo.testing import tolerance
from tests.affine.analytic_features import GaussianMixture, LiftKernel, tensor

H = tensor([[1.2, 0.4], [-0.3, 0.9]])
CLOSED_FORM, DECIMALS = 0.081541858520, 1e-12  # one in the last of its digits
QUARTER = tensor([[0.0, -1.0], [1.0, 0.0]])


def single_gaussian() -> GaussianMixture:
    covariance = tensor([[[0.10, 0.03], [0.03, 0.05]]])
    return GaussianMixture(tensor([1.0]), tensor([[0.3, 0.1]]), covariance)


def lifted_at(f: GaussianMixture, x: Tensor, h: Tensor) -> float:
    """What LiftConv makes of exact values on a patch around one point."""
    spec = KernelSpec(41, extent=2.0, window="none")
    layer = LiftConv(GLPlus(2), 1, 1, spec).double()
    layer.kernel = LiftKernel()
    patch = f.values(x + kernel_grid(spec.size, 2, spec.extent)).view(1, 1, spec.size, spec.size)
    samples = GroupSamples.from_elements(GLPlus(2), h[None], tensor([1.0]))
    return float(layer(patch, samples)[0])


def test_closed_form() -> None:
    f, x = single_gaussian(), tensor([0.2, -0.1])
    assert float(f.lifted(x[None], H[None])) == pytest.approx(CLOSED_FORM, abs=DECIMALS)
    # Pixels of 4 / 41 add 4e-12 of the value, 2 exp(-2 pi^2 (0.114 / 0.098)^2).
    assert lifted_at(f, x, H) == pytest.approx(CLOSED_FORM, abs=DECIMALS)


def test_closed_form_moves_with_the_function() -> None:
    a, f, x = tensor([[1.25, 0.3], [0.1, 0.824]]), single_gaussian(), tensor([0.2, -0.1])
    assert float(f.moved(a).lifted((a @ x)[None], (a @ H)[None])) == pytest.approx(
        CLOSED_FORM, abs=DECIMALS
    )
    # The moved Gaussians are narrower along columns, where pixels add up to 1e-8 of the value.
    assert lifted_at(f.moved(a), a @ x, a @ H) == pytest.approx(CLOSED_FORM, abs=1e-9)


# --- Exact symmetries of the grid -----------------------------------------------------------------


class TwoLayers(torch.nn.Module):
    """Lifting and one convolution with circular padding; features on the group."""

    def __init__(self, group: LinearGroup, kind: type = GroupConv, size: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        spec = KernelSpec(size, continuous_rotation=True)
        options = {"padding": size // 2, "padding_mode": "circular"}
        self.lift = LiftConv(group, 1, 3, spec, **options)
        self.conv = kind(group, 3, 2, spec, **options)
        self.double()

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        features, samples = self.lift(x, samples)
        return self.conv(features.sin(), samples)[0]


def turn(x: Tensor) -> Tensor:
    """Quarter turn of the last two axes: x(p) becomes x(g^-1 p) for QUARTER on (row, column)."""
    return x.rot90(1, (-2, -1))


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
def test_shifts_by_pixels_are_exact(kind: type) -> None:
    x, samples = torch.rand(1, 1, 8, 8, dtype=torch.float64), equidistant_rotations(5)
    layers = TwoLayers(SO(2), kind)
    shifted = layers(x.roll((2, -3), (-2, -1)), samples)
    expected = layers(x, samples).roll((2, -3), (-2, -1))
    torch.testing.assert_close(shifted, expected, **tolerance(torch.float64, terms=400))


@pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
@pytest.mark.parametrize("count", [4, 8])
def test_quarter_turns_are_exact(kind: type, count: int) -> None:
    x, samples = torch.rand(1, 1, 9, 9, dtype=torch.float64), equidistant_rotations(count)
    layers = TwoLayers(SO(2), kind)
    turned = layers(turn(x), samples)
    expected = turn(layers(x, samples)).roll(count // 4, 2)
    torch.testing.assert_close(turned, expected, **tolerance(torch.float64, terms=800))


def test_five_rotations_do_not_know_quarter_turns() -> None:
    x, samples = torch.rand(1, 1, 9, 9, dtype=torch.float64), equidistant_rotations(5)
    layers = TwoLayers(SO(2))
    turned, expected = layers(turn(x), samples), turn(layers(x, samples))
    worst = min(float((turned - expected.roll(k, 2)).detach().abs().max()) for k in range(5))
    assert worst > 0.05 * float(expected.detach().abs().max())


@pytest.mark.parametrize(
    ("pixels", "stride", "padding", "centred"),
    [(12, 1, 0, True), (12, 2, 0, False), (13, 2, 0, True), (13, 2, 2, True), (12, 2, 2, False),
     (12, 3, 1, True), (13, 3, 1, False)],
)  # fmt: skip
def test_strides_keep_quarter_turns_where_outputs_are_centred(pixels, stride, padding, centred):
    torch.manual_seed(0)
    x, samples = torch.rand(1, 1, pixels, pixels, dtype=torch.float64), equidistant_rotations(4)
    spec = KernelSpec(5, continuous_rotation=True)
    layer = LiftConv(SO(2), 1, 3, spec, stride=stride, padding=padding).double()
    turned, expected = layer(turn(x), samples)[0], turn(layer(x, samples)[0]).roll(1, 2)
    if centred:
        torch.testing.assert_close(turned, expected, **tolerance(torch.float64, terms=25))
    else:
        assert float((turned - expected).detach().abs().max()) > 1e-2


@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize("samples", [finite_rotations("octahedral"), point_group("O_h")], ids=str)
def test_pooling_volumes_over_the_octahedral_group_is_invariant(
    samples: GroupSamples, kind: str
) -> None:
    x = torch.rand(1, 1, 5, 5, 5, dtype=torch.float64)
    layers, pool = TwoLayers(samples.group, SeparableGroupConv), GroupPool(kind)
    pooled = pool(layers(x, samples), samples)
    close = tolerance(torch.float64, terms=3 * 48 * 27)  # channels, elements, voxels
    for axes in ((2, 3), (3, 4), (2, 4)):
        turned = pool(layers(x.rot90(1, axes), samples), samples)
        torch.testing.assert_close(turned, pooled, **close)
    mirrored = pool(layers(x.flip(2), samples), samples)
    if samples.group.has_reflections:
        torch.testing.assert_close(mirrored, pooled, **close)
    elif kind == "max":  # the mean of a linear map forgets the mirror
        assert float((mirrored - pooled).detach().abs().max()) > 1e-6


# --- Fields with values that turn -----------------------------------------------------------------


@pytest.mark.parametrize("up", [0, 1, 2])
def test_lifting_reads_fields_of_tensors(up: int) -> None:
    torch.manual_seed(0)
    rep, samples = TensorRep(SO(2), up=up), equidistant_rotations(8)
    spec = KernelSpec(3, continuous_rotation=True)
    options = {"padding": 1, "padding_mode": "circular"}
    layer = LiftConv(SO(2), 2, 3, spec, rep_in=rep, **options).double()
    x = torch.randn(2, 2 * rep.dim, 7, 7, dtype=torch.float64)
    values = x.unflatten(1, (2, rep.dim))
    turned = torch.einsum("de,bce...->bcd...", rep.matrix(QUARTER), values).flatten(1, 2)
    expected = turn(layer(x, samples)[0]).roll(2, 2)
    close = tolerance(torch.float64, terms=2 * rep.dim * 9)
    torch.testing.assert_close(layer(turn(turned), samples)[0], expected, **close)
    if up:  # values that stay as they are while their places turn are another field
        still = layer(turn(x), samples)[0]
        assert float((still - expected).detach().abs().max()) > 1e-2


def test_representations_of_fields_are_checked() -> None:
    with pytest.raises(ValueError, match="linear representation"):
        LiftConv(SO(2), 1, 2, rep_in=Points(SO(2)))
    with pytest.raises(ValueError, match=r"to which GLPlus\(2\) does not map"):
        LiftConv(GLPlus(2), 1, 2, rep_in=TensorRep(SO(2)))
    with pytest.raises(TypeError, match="have a Representation, got 3"):
        LiftConv(SO(2), 1, 2, rep_in=3)  # type: ignore[arg-type]
    layer = LiftConv(SO(3), 1, 2, KernelSpec(3), rep_in=Irreps("1o"))
    assert layer.rep_in.group == SO(3)
    with pytest.raises(ValueError, match=r"\(batch, 3, size, size, size\)"):
        layer(torch.rand(1, 1, 5, 5, 5), finite_rotations("octahedral"))
