"""Projections, separable convolutions, readouts, and how convolutions pack features."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo.affine import (
    GroupConv,
    KernelSpec,
    LiftConv,
    ProjectConv,
    SeparableGroupConv,
    TensorReadout,
    WindowWarning,
)
from equigeo.affine.convolve import check_features, convolve, pack, unpack
from equigeo.groups import SO, GLPlus, GroupSamples, equidistant_rotations, finite_rotations
from equigeo.reps import Irreps, Representation, TensorRep
from equigeo.testing import tolerance
from tests.affine.test_group_conv import quadrature
from tests.affine.test_lift_conv import QUARTER, TwoLayers, turn
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, terms=3 * 8 * 9)  # channels, rotations and pixels of a kernel


def test_projection_gives_a_field_that_turns_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    project = ProjectConv(SO(2), 2, 3, KernelSpec(3), padding=1, padding_mode="circular").double()
    layers = TwoLayers(SO(2))
    field = project(layers(x, samples), samples)
    turned = project(layers(turn(x), samples), samples)
    torch.testing.assert_close(turned, turn(field), **CLOSE)


@pytest.mark.parametrize("up", [1, 2])
def test_projection_writes_fields_of_tensors(up: int) -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    rep, options = TensorRep(SO(2), up=up), {"padding": 1, "padding_mode": "circular"}
    project = ProjectConv(SO(2), 2, 3, KernelSpec(3), rep_out=rep, **options).double()
    layers = TwoLayers(SO(2))
    field = project(layers(x, samples), samples)
    assert field.shape == (1, 3 * rep.dim, 9, 9)
    turned = project(layers(turn(x), samples), samples).unflatten(1, (3, rep.dim))
    still = turn(field).unflatten(1, (3, rep.dim))
    expected = torch.einsum("de,bce...->bcd...", rep.matrix(QUARTER), still)
    torch.testing.assert_close(turned, expected, **CLOSE)
    assert float((turned - still).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("spatial", ["depthwise", "dense"])
def test_separable_is_the_full_layer_with_a_product_kernel(spatial: str) -> None:
    samples = quadrature(GLPlus(2), 0.4, 2, 3)
    outputs = samples.select(torch.arange(3))
    x = torch.rand(2, 3, len(samples), 7, 7, dtype=torch.float64)
    spec = KernelSpec(3)
    layer = SeparableGroupConv(GLPlus(2), 3, 4, spec, spatial=spatial, bias=False).double()
    full = GroupConv(GLPlus(2), 3, 4, spec, bias=False).double()
    full.kernel = _Product(layer)
    with pytest.warns(WindowWarning):
        values = [conv(x, samples, outputs)[0] for conv in (layer, full)]
    torch.testing.assert_close(*values, **tolerance(torch.float64, terms=3 * 12 * 9))


class _Product(nn.Module):
    """The product of both parts of a separable layer, as one kernel."""

    def __init__(self, layer: SeparableGroupConv) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, u: Tensor, s: Tensor) -> Tensor:
        group = self.layer.group_kernel(s=s).unflatten(-1, (4, 3))
        space = self.layer.spatial_kernel(u).unflatten(-1, (4, -1))
        if self.layer.spatial == "depthwise":
            return (space * group).flatten(-2)
        return (space @ group).flatten(-2)


def test_read_out_gives_vectors_that_turn_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    layers, readout = TwoLayers(SO(2)), TensorReadout(TensorRep(SO(2), up=1))
    vectors = readout(layers(x, samples), samples)
    turned = readout(layers(turn(x), samples), samples)
    expected = vectors.rot90(1, (2, 3)) @ QUARTER.mT
    torch.testing.assert_close(turned, expected, **tolerance(torch.float64, terms=3 * 8 * 9))
    assert float((turned - vectors.rot90(1, (2, 3))).detach().abs().max()) > 1e-3


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
    with pytest.raises(ValueError, match=r"samples must be of O\(3\), got GLPlus\(3\)"):
        TensorReadout(rep)(x[:, :, :1], samples_of_stretches())


def samples_of_stretches() -> GroupSamples:
    """One element of GL+(3), which is no rotation."""
    h = torch.eye(3, dtype=torch.float64)[None] * 2
    return GroupSamples.from_elements(GLPlus(3), h, torch.ones(1, dtype=torch.float64))


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


def test_packing_is_undone() -> None:
    x = torch.rand(2, 3, 4, 5, 6)
    packed = pack(x)
    assert torch.equal(packed[:, 3:6], x[:, :, 1])  # samples slowest
    assert torch.equal(unpack(packed, 4), x)


def test_wrong_arguments_raise():
    refused("spatial must be", SeparableGroupConv, GLPlus(2), 1, 1, spatial="wide")
    refused(
        r"must be \(batch, 3, size, size\), got \(1, 2, 5, 5\)",
        check_features,
        torch.rand(1, 2, 5, 5),
        3,
        2,
        None,
    )


def test_memory_order_is_kept() -> None:
    x, samples = torch.rand(2, 1, 8, 8), equidistant_rotations(6)
    spec = KernelSpec(3)
    features, _ = GroupConv(SO(2), 4, 4, spec)(*LiftConv(SO(2), 1, 4, spec)(x, samples))
    assert features.permute(0, 3, 4, 2, 1).is_contiguous()
