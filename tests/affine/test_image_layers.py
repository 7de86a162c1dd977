"""Convolutions of images and features on a group against closed forms and exact symmetries."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine import (
    GroupConv,
    GroupPool,
    KernelSpec,
    LiftConv,
    ProjectConv,
    Quadrature,
    SeparableGroupConv,
    TensorReadout,
    WindowWarning,
)
from equigeo.affine.group_conv import check_features, convolve, pack, unpack
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import (
    SL,
    SO,
    GLPlus,
    GroupSamples,
    LinearGroup,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    haar_rotations,
    multiply_samples,
    pair_samples,
    point_group,
    sample_stretches,
)
from equigeo.reps import Field, Irreps, Points, Representation, TensorRep, Trivial
from equigeo.testing import assert_equivariant, tolerance
from tests.affine.analytic_features import (
    GaussianMixture,
    LiftKernel,
    analytic_conv,
    convolve_at,
    equivariance_error,
    stretch,
    tensor,
)
from tests.wrong_inputs import refused

every_conv = pytest.mark.parametrize("kind", [GroupConv, SeparableGroupConv])
CLOSE = tolerance(torch.float64, terms=3 * 8 * 9)  # channels, rotations and pixels of a kernel
QUARTER = tensor([[0.0, -1.0], [1.0, 0.0]])
CIRCULAR = KernelSpec(3, padding_mode="circular")


class TwoLayers(torch.nn.Module):
    """Lifting and one convolution with circular padding; features on the group."""

    def __init__(self, group: LinearGroup, kind: type = GroupConv) -> None:
        super().__init__()
        torch.manual_seed(0)
        spec = replace(CIRCULAR, continuous_rotation=True)
        self.lift = LiftConv(group, 1, 3, spec, padding=1)
        self.conv = kind(group, 3, 2, spec, padding=1)
        self.double()

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        features, samples = self.lift(x, samples)
        return self.conv(features.sin(), samples)[0]


def turn(x: Tensor) -> Tensor:
    """Quarter turn of the last two axes: x(p) becomes x(g^-1 p) for QUARTER on (row, column)."""
    return x.rot90(1, (-2, -1))


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize("up", [0, 1, 2])
def test_projection_writes_fields_of_tensors(up: int) -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    rep = TensorRep(SO(2), up=up)
    options = {"rep_out": rep} if up else {}  # scalars without one
    project = ProjectConv(SO(2), 2, 3, CIRCULAR, padding=1, **options).double()
    layers = TwoLayers(SO(2))

    def field(x: Tensor) -> Tensor:
        return project(layers(x, samples), samples)

    assert field(x).shape == (1, 3 * rep.dim, 9, 9)
    fields = Field(Trivial(SO(2), 1)), Field(rep)
    assert_equivariant(field, *fields, inputs=[x], elements=QUARTER[None])
    assert (difference(field(turn(x)), turn(field(x))) > 1e-3) == (up > 0)


class ProductOfParts(nn.Module):
    """The product of both parts of a separable layer, as one kernel."""

    def __init__(self, layer: SeparableGroupConv) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, u: Tensor, s: Tensor) -> Tensor:
        group = self.layer.group_kernel(s=s).unflatten(-1, (4, 3))
        space = self.layer.spatial_kernel(u).unflatten(-1, (4, -1))
        depthwise = self.layer.spatial == "depthwise"
        return (space * group if depthwise else space @ group).flatten(-2)


@pytest.mark.parametrize("spatial", ["depthwise", "dense"])
def test_separable_is_the_full_layer_with_a_product_kernel(spatial: str) -> None:
    samples = quadrature(GLPlus(2), 0.4, 2, 3)
    outputs = samples.select(torch.arange(3))
    x = torch.rand(2, 3, len(samples), 7, 7, dtype=torch.float64)
    spec = KernelSpec(3)
    layer = SeparableGroupConv(GLPlus(2), 3, 4, spec, spatial=spatial, bias=False).double()
    full = GroupConv(GLPlus(2), 3, 4, spec, bias=False).double()
    full.kernel = ProductOfParts(layer)
    with pytest.warns(WindowWarning):
        values = [conv(x, samples, outputs)[0] for conv in (layer, full)]
    torch.testing.assert_close(*values, **tolerance(torch.float64, terms=3 * 12 * 9))


def test_read_out_gives_vectors_that_turn_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    layers, readout = TwoLayers(SO(2)), TensorReadout(TensorRep(SO(2), up=1))
    vectors = readout(layers(x, samples), samples).rot90(1, (2, 3))
    turned = readout(layers(turn(x), samples), samples)
    torch.testing.assert_close(turned, vectors @ QUARTER.mT, **CLOSE)
    assert difference(turned, vectors) > 1e-3


@pytest.mark.parametrize(
    "rep",
    [
        TensorRep(GLPlus(2), up=1),
        TensorRep(GLPlus(2), up=0, density=-1.0),
        TensorRep(GLPlus(2), up=1, down=1, density=0.5),
    ],
    ids=str,
)
def test_read_out_has_the_representation_that_it_declares(rep: Representation) -> None:
    fixed = torch.Generator().manual_seed(1)
    h, move = GLPlus(2).sample(2, radius=0.6, generator=fixed)
    weight = torch.ones(2, dtype=torch.float64)
    samples = GroupSamples.from_elements(GLPlus(2), torch.stack([h, move @ h]), weight)
    x = torch.rand(3, 2 * rep.dim, 2, 4, 4, dtype=torch.float64, generator=fixed)
    x[:, :, 1] = 0.0
    readout = TensorReadout(rep)
    out, moved = readout(x, samples), readout(x.flip(2), samples)
    close = tolerance(torch.float64, terms=2 * rep.dim)
    torch.testing.assert_close(moved, readout.rep_out.act(move, out), **close)
    assert float((moved - out).abs().max()) > 1e-2


def test_read_out_of_irreps_reads_samples_of_the_rotations_among_o3() -> None:
    samples, rep = finite_rotations("octahedral"), Irreps("0e + 1o + 2e")
    x = torch.rand(2, rep.dim, len(samples), 3, 3, 3, dtype=torch.float64)
    turn = samples.h[5]
    order = (samples.act(turn).h[:, None] - samples.h[None]).abs().amax((2, 3)).argmin(0)
    out, turned = (TensorReadout(rep)(y, samples) for y in (x, x[:, :, order]))
    assert out.shape == (2, 1, 3, 3, 3, rep.dim)
    close = tolerance(torch.float64, terms=len(samples) * rep.dim)
    torch.testing.assert_close(turned, rep.act(turn, out), **close)
    stretch = GroupSamples.from_elements(GLPlus(3), 2 * tensor(torch.eye(3).tolist())[None], ONE)
    message = r"samples must be of O\(3\), got GLPlus\(3\)"
    refused(message, TensorReadout(rep), x[:, :, :1], stretch)


def test_circular_padding_is_that_of_a_repeated_image() -> None:
    x = torch.rand(2, 3, 6, 7, dtype=torch.float64)
    kernel = torch.rand(4, 3, 5, 5, dtype=torch.float64)
    tiled = x.repeat(1, 1, 3, 3)[..., 4:14, 5:16]
    expected = F.conv2d(tiled, kernel)
    found = convolve(x, kernel, padding=2, padding_mode="circular")
    torch.testing.assert_close(found, expected, **tolerance(torch.float64, terms=3 * 5 * 5))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_kernels_take_the_type_of_features(n: int) -> None:
    x, kernel = torch.rand(1, 2, *[5] * n), torch.rand(3, 2, *[3] * n, dtype=torch.float64)
    y = convolve(x, kernel)
    assert y.dtype == torch.float32
    assert y.shape == (1, 3, *[3] * n)


def test_packing_is_undone_and_memory_order_kept() -> None:
    x = torch.rand(2, 3, 4, 5, 6)
    packed = pack(x)
    assert torch.equal(packed[:, 3:6], x[:, :, 1])  # samples slowest
    assert torch.equal(unpack(packed, 4), x)
    x, samples = torch.rand(2, 1, 8, 8), equidistant_rotations(6)
    spec = KernelSpec(3)
    lifted = LiftConv(SO(2), 1, 4, spec)(x, samples)
    features, _ = SeparableGroupConv(SO(2), 4, 4, spec, spatial="dense")(*lifted)
    assert features.permute(0, 3, 4, 2, 1).is_contiguous()
    for given in (lifted[0], lifted[0].contiguous()):
        features, _ = GroupConv(SO(2), 4, 4, spec, bias=False)(given, samples)
        assert features.transpose(1, 2).is_contiguous()


ONE = tensor([1.0])


def quadrature(group: LinearGroup, extent: float, points: int, angles: int) -> GroupSamples:
    stretches = grid_stretches(group, extent, points)
    return multiply_samples(stretches, equidistant_rotations(angles))


def test_value_over_rotations() -> None:
    h = GroupSamples.from_elements(SO(2), SO(2).from_coordinates(tensor([[0.5]])), ONE)
    conv, f, x = analytic_conv(SO(2), 31), GaussianMixture.standard(), tensor([[0.2, -0.1]])
    value = convolve_at(conv, f, x, h, equidistant_rotations(16))
    assert float(value) == pytest.approx(0.01931669032, abs=1e-11)  # eleven decimals


@pytest.mark.full
def test_value_over_sl2() -> None:
    x, h = tensor([[0.2, -0.1]]), tensor([[1.2, 0.4], [-0.3, 0.9]]) / math.sqrt(1.2)
    a = tensor([[1.25, 0.3], [0.1, 0.824]])
    conv, f = analytic_conv(SL(2), 31), GaussianMixture.standard()
    samples = quadrature(SL(2), 1.5, 13, 16)
    still, moved = (GroupSamples.from_elements(SL(2), g[None], ONE) for g in (h, a @ h))
    value = convolve_at(conv, f, x, still, samples)
    # Stretches are one deviation of the kernel apart, along two axes: 2 exp(-2 pi^2) for each.
    assert float(value) == pytest.approx(0.005939353736, rel=4 * math.exp(-2 * math.pi**2))
    value = convolve_at(conv, f.moved(a), x @ a.mT, moved, samples)
    # The stretches end 3.7 deviations from the moved element: 1e-4 of the kernel lie beyond, where
    # the features are small. What is lost is 2e-6 of the value.
    assert float(value) == pytest.approx(0.005939353736, abs=2e-8)


@pytest.mark.full
@pytest.mark.parametrize("size", [0.1, 0.3, 0.6])
def test_quadrature_over_sl2_is_equivariant(size: float) -> None:
    samples = quadrature(SL(2), 1.2, 7, 8)
    error = equivariance_error(analytic_conv(SL(2)), samples, stretch(size, SL(2)), points=8)
    assert len(samples) == 392
    assert error <= (5e-3 if size == 0.6 else 2e-3)


def test_determinants_are_where_they_belong() -> None:
    samples = quadrature(GLPlus(2), 1.0, 5, 6)
    a = 1.25 * stretch(0.1, SL(2))
    right = equivariance_error(analytic_conv(GLPlus(2)), samples, a, points=3)
    conv = analytic_conv(GLPlus(2))
    conv.quadrature = Quadrature(mean=False, measure=True)
    wrong = equivariance_error(conv, samples, a, points=3)
    assert right < 0.05  # stretches are 0.5, two deviations of the kernel, apart
    assert wrong > 0.15  # the determinant that is missing is 1.25^2


@pytest.mark.parametrize(("count", "bound"), [(4, 0.09), (6, 5e-3), (8, 2e-4), (10, 2e-5)])
def test_equidistant_rotations_converge_spectrally(count: int, bound: float) -> None:
    a = stretch(0.0, SO(2))
    error = equivariance_error(analytic_conv(SO(2)), equidistant_rotations(count), a)
    assert error < bound


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.parametrize("size", [0.1, 0.3, 0.6])
def test_weighted_samples_of_sl2_converge(size: float) -> None:
    samples, a = random_sl2(4096, 0.7), stretch(size, SL(2))
    assert equivariance_error(analytic_conv(SL(2)), samples, a, points=8) < 0.06


def random_sl2(count: int, std: float) -> GroupSamples:
    generator = torch.Generator().manual_seed(1)
    stretches = sample_stretches(SL(2), count, std, generator=generator)
    return pair_samples(stretches, haar_rotations(2, count, generator=generator))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
def test_samples_without_weights_do_not_converge() -> None:
    errors = []
    for count in (256, 4096):
        samples = random_sl2(count, 0.158)
        weight = torch.full_like(samples.weight, 1 / count)
        samples = GroupSamples.from_coordinates(SL(2), samples.coordinates, weight)
        conv, a = analytic_conv(SL(2)), stretch(0.3, SL(2))
        errors.append(equivariance_error(conv, samples, a, points=8))
    assert errors[1] > 0.8 * errors[0] > 0.2


# --- What holds to rounding -----------------------------------------------------------------------


@every_conv
def test_chunks_change_nothing(kind: type) -> None:
    samples = quadrature(SL(2), 0.4, 2, 3)
    x = torch.rand(2, 3, len(samples), 7, 7, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    layer = kind(SL(2), 3, 4, KernelSpec(3, window="none")).double()
    gradients = []
    for chunk in (None, 5):
        layer.quadrature = Quadrature(chunk=chunk)
        with pytest.warns(WindowWarning, match="need inf"):
            y, _ = layer(x, samples)
        gradients.append((y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])))
    # Parameters of the kernel gather 12 * 12 pairs of samples, its 9 pixels and 2 * 5 * 5 outputs.
    close = tolerance(torch.float64, terms=12 * 12 * 9 * 50)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **close)


@every_conv
def test_order_of_samples_changes_nothing(kind: type) -> None:
    samples, order = equidistant_rotations(6), torch.tensor([3, 1, 0, 5, 2, 4])
    x = torch.rand(2, 3, 6, 7, 7, dtype=torch.float64)
    layer = kind(SO(2), 3, 4, KernelSpec(3)).double()
    shuffled, _ = layer(x[:, :, order], samples.select(order), samples)
    close = tolerance(torch.float64, terms=3 * 6 * 9)
    torch.testing.assert_close(shuffled, layer(x, samples)[0], **close)


@pytest.mark.filterwarnings("ignore::equigeo.affine.WindowWarning")
@pytest.mark.parametrize("network", ["siren", "gabor", "rbf"])
@every_conv
def test_quarter_turns_are_exact_on_samples_that_hold_half_turns(kind: type, network: str) -> None:
    stretched = multiply_samples(grid_stretches(SL(2), 0.3, 3), equidistant_rotations(4))
    quarter = equidistant_rotations(4).h[1]
    for samples in (*map(equidistant_rotations, (4, 8, 12)), stretched):
        torch.manual_seed(0)
        spec = KernelSpec(3, network=network, stretch_reach=3.0)
        lift = LiftConv(samples.group, 1, 2, spec).double()
        conv = kind(samples.group, 2, 3, spec).double()
        x = torch.rand(1, 1, 7, 7, dtype=torch.float64)
        expected = conv(*lift(x, samples))[0].rot90(1, (-2, -1))
        turned = conv(*lift(x.rot90(1, (-2, -1)), samples.act(quarter)))[0]
        assert float(expected.detach().std()) > 1e-4  # not zero by weights or windows
        close = tolerance(torch.float64, terms=9 * 2 * len(samples))
        torch.testing.assert_close(turned, expected, **close)


H = tensor([[1.2, 0.4], [-0.3, 0.9]])
CLOSED_FORM, DECIMALS = 0.081541858520, 1e-12  # one in the last of its digits


def test_lifting_has_the_closed_form() -> None:
    covariance = tensor([[[0.10, 0.03], [0.03, 0.05]]])
    f, x = GaussianMixture(ONE, tensor([[0.3, 0.1]]), covariance), tensor([0.2, -0.1])
    a, identity = tensor([[1.25, 0.3], [0.1, 0.824]]), tensor([[1.0, 0.0], [0.0, 1.0]])
    spec = KernelSpec(41, extent=2.0, window="none")
    layer = LiftConv(GLPlus(2), 1, 1, spec).double()
    layer.kernel = LiftKernel()
    # Pixels of 4 / 41 add 4e-12 of the value, 2 exp(-2 pi^2 (0.114 / 0.098)^2). The moved Gaussians
    # are narrower along columns, where pixels add up to 1e-8 of the value.
    for g, bound in ((identity, DECIMALS), (a, 1e-9)):
        moved, place, h = f.moved(g), g @ x, (g @ H)[None]
        exact = float(moved.lifted(place[None], h))
        assert exact == pytest.approx(CLOSED_FORM, abs=DECIMALS)
        grid = kernel_grid(spec.size, 2, spec.extent)
        patch = moved.values(place + grid).view(1, 1, spec.size, spec.size)
        found = layer(patch, GroupSamples.from_elements(GLPlus(2), h, ONE))[0]
        assert float(found) == pytest.approx(CLOSED_FORM, abs=bound)


# --- Exact symmetries of the grid -----------------------------------------------------------------


@every_conv
@pytest.mark.parametrize("count", [4, 8, 5])
def test_shifts_are_exact_and_quarter_turns_with_samples_that_hold_them(kind, count) -> None:
    x, samples = torch.rand(1, 1, 9, 9, dtype=torch.float64), equidistant_rotations(count)
    layers, close = TwoLayers(SO(2), kind), tolerance(torch.float64, terms=400)
    values, turned = layers(x, samples), layers(turn(x), samples)
    shifted = layers(x.roll((2, -3), (-2, -1)), samples)
    torch.testing.assert_close(shifted, values.roll((2, -3), (-2, -1)), **close)
    if count == 5:
        worst = min(difference(turned, turn(values).roll(k, 2)) for k in range(5))
        assert worst > 0.05 * float(values.detach().abs().max())
    else:
        torch.testing.assert_close(turned, turn(values).roll(count // 4, 2), **close)


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
        assert difference(turned, expected) > 1e-2


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
        assert difference(mirrored, pooled) > 1e-6


# --- Fields with values that turn -----------------------------------------------------------------


@pytest.mark.parametrize("up", [0, 1, 2])
def test_lifting_reads_fields_of_tensors(up: int) -> None:
    torch.manual_seed(0)
    rep, samples = TensorRep(SO(2), up=up), equidistant_rotations(8)
    spec = replace(CIRCULAR, continuous_rotation=True)
    layer = LiftConv(SO(2), 2, 3, spec, rep_in=rep, padding=1).double()
    x = torch.randn(2, 2 * rep.dim, 7, 7, dtype=torch.float64)
    values = x.unflatten(1, (2, rep.dim))
    turned = torch.einsum("de,bce...->bcd...", rep.matrix(QUARTER), values).flatten(1, 2)
    expected = turn(layer(x, samples)[0]).roll(2, 2)
    close = tolerance(torch.float64, terms=2 * rep.dim * 9)
    torch.testing.assert_close(layer(turn(turned), samples)[0], expected, **close)
    if up:  # values that stay as they are while their places turn are another field
        assert difference(layer(turn(x), samples)[0], expected) > 1e-2


def test_wrong_arguments_raise() -> None:
    refused("spatial must be", SeparableGroupConv, GLPlus(2), 1, 1, spatial="wide")
    message = r"must be \(batch, 3, size, size\), got \(1, 2, 5, 5\)"
    refused(message, check_features, torch.rand(1, 2, 5, 5), 3, 2, None)
    refused("linear representation", LiftConv, SO(2), 1, 2, rep_in=Points(SO(2)))
    message = r"to which GLPlus\(2\) does not map"
    refused(message, LiftConv, GLPlus(2), 1, 2, rep_in=TensorRep(SO(2)))
    refused("have a Representation, got 3", LiftConv, SO(2), 1, 2, rep_in=3, error=TypeError)
    layer = LiftConv(SO(3), 1, 2, KernelSpec(3), rep_in=Irreps("1o"))
    assert layer.rep_in.group == SO(3)
    volume, rotations = torch.rand(1, 1, 5, 5, 5), finite_rotations("octahedral")
    refused(r"\(batch, 3, size, size, size\)", layer, volume, rotations)
