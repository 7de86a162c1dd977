"""Parts of the networks: heads, stages, downsampling, tapers and the configuration for clouds."""

import math
from typing import Literal

import pytest
import torch
from torch.nn import functional as F

from equigeo.affine import (
    AffinePointNetConfig,
    AffineResNetConfig,
    ConvolutionsConfig,
    GroupConv,
    HeadConfig,
    KernelSpec,
    LiftConv,
    SeparableGroupConv,
    StagesConfig,
)
from equigeo.affine.affine_resnet import (
    GroupResidual,
    ResidualStage,
    disc_taper,
    downsample,
    make_group_conv,
)
from equigeo.affine.heads import MaxHead, OrientationHead, make_head
from equigeo.groups import SO, equidistant_rotations, rotation_log
from equigeo.testing import tolerance


def test_head_reads_all_logits_where_one_score_looks() -> None:
    head, rotations = OrientationHead(4, 3, window=180.0).double(), equidistant_rotations(8)
    torch.nn.init.constant_(head.attend.weight, 10.0)
    x = torch.rand(2, 4, 8, 1, 1, dtype=torch.float64)
    x[:, :, 5] += 5.0
    torch.testing.assert_close(head(x, rotations), head.classify(x[:, :, 5, 0, 0]))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))


def test_window_of_the_head_leaves_out_what_stands_on_its_head() -> None:
    head, rotations = OrientationHead(4, 3, window=60.0).double(), equidistant_rotations(8)
    weight = head.attention(torch.rand(2, 4, 8, dtype=torch.float64), rotations)
    torch.testing.assert_close(weight.sum(1), torch.ones(2, dtype=torch.float64))
    angle = rotation_log(rotations.h).flatten().abs()
    assert float(weight[:, angle > 3].max().detach()) < math.exp(-((180 / 60) ** 4))
    assert (weight.argmax(1) == angle.argmin()).all()  # untrained, the window decides alone


def test_prior_begins_as_none_and_learns_where_images_stand() -> None:
    rotations = equidistant_rotations(8)
    plain, head = OrientationHead(4, 3).double(), OrientationHead(4, 3, prior=2).double()
    head.load_state_dict(plain.state_dict() | {"prior": head.prior})
    x = torch.rand(2, 4, 8, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(head(x, rotations), plain(x, rotations))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))
    head(x, rotations)[:, 0].sum().backward()
    assert head.prior.grad is not None
    assert head.prior.grad.norm() > 0
    with torch.no_grad():
        head.prior[0] = 10.0  # the cosine of the angle itself
    weight = head.attention(x[..., 0, 0], rotations)
    angle = rotation_log(rotations.h).flatten().abs()
    assert (weight.argmax(1) == angle.argmin()).all()


def test_prior_reads_angles_with_errors_in_training_alone() -> None:
    head, rotations = OrientationHead(4, 3, prior=2, prior_noise=45.0), equidistant_rotations(8)
    torch.nn.init.ones_(head.prior)
    x = torch.rand(1, 4, 8).expand(64, -1, -1)  # one image, again and again
    seen = head.attention(x, rotations)
    assert float(seen.detach().var(0).max()) > 1e-3
    # Turned by at most an eighth of a circle, which is one sample.
    assert seen.argmax(1).unique().numel() <= 3
    exact = head.eval().attention(x, rotations)
    torch.testing.assert_close(exact, exact[:1].expand_as(exact))


def test_configuration_chooses_the_head() -> None:
    assert isinstance(make_head(HeadConfig(features=4, kind="max"), 3), MaxHead)
    head = make_head(HeadConfig(features=4, window=30.0), 3)
    assert isinstance(head, OrientationHead)
    assert (head.window, head.classify.out_features, len(head.prior)) == (30.0, 3, 8)
    assert head.prior_noise == 45.0


def test_blocks_add_to_their_input() -> None:
    block = GroupResidual([GroupConv(SO(2), 3, 3, padding=2, bias=False)], "layer")
    torch.nn.init.zeros_(block.convs[0].kernel.network.last.weight)
    x = torch.rand(1, 3, 4, 6, 6)
    torch.testing.assert_close(block(x, equidistant_rotations(4)), x)


@pytest.mark.parametrize("channels", [3, 5])
def test_only_other_channels_need_a_convolution_before_the_blocks(channels: int) -> None:
    config = AffineResNetConfig(2, stages=StagesConfig((5,), (False,), blocks=2, convs=3, size=3))
    stage = ResidualStage(config, channels, 5)
    assert (stage.widen is None) == (channels == 5)
    assert [len(block.convs) for block in stage.blocks] == [3, 3]
    assert stage(torch.rand(2, channels, 4, 6, 6), equidistant_rotations(4)).shape == (
        2,
        5,
        4,
        6,
        6,
    )


@pytest.mark.parametrize(("separable", "kind"), [(True, SeparableGroupConv), (False, GroupConv)])
def test_configuration_chooses_the_convolution(separable: bool, kind: type) -> None:
    config = AffineResNetConfig(2, convolutions=ConvolutionsConfig(separable=separable))
    conv = make_group_conv(config, 3, 4, 5, 2)
    assert type(conv) is kind
    assert (conv.spec.size, conv.spec.centers, conv.padding, conv.bias) == (5, 4, 2, None)


CLOSE = tolerance(torch.float64, terms=4 * 4)


@pytest.mark.parametrize("sides", [(8, 8), (7, 10), (1, 5), (2, 3)])
def test_binomial_pooling_is_a_strided_convolution(sides: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 4, *sides, dtype=torch.float64)
    weights = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64) / 8
    padded = F.pad(x.flatten(0, 2)[:, None], (1, 1, 1, 1))
    if min(padded.shape[-2:]) < 4:
        padded = F.pad(padded, (0, 4, 0, 4))
    expected = F.conv2d(padded, (weights[:, None] * weights)[None, None], stride=2)[:, 0]
    expected = expected[:, : sides[0] // 2, : sides[1] // 2].unflatten(0, (2, 3, 4))
    torch.testing.assert_close(downsample(x, "binomial"), expected, **CLOSE)


def test_pooling_turns_and_reflects_with_features() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    poolings: tuple[Literal["binomial", "max"], ...] = ("binomial", "max")
    for pooling in poolings:
        y = downsample(x, pooling)
        torch.testing.assert_close(downsample(x.rot90(1, (2, 3)), pooling), y.rot90(1, (2, 3)))
        torch.testing.assert_close(downsample(x.flip(3), pooling), y.flip(3))


def test_nothing_is_left_outside_of_the_circle_and_nothing_changes_inside_of_the_rim() -> None:
    x = torch.rand(2, 3, 16, 16, dtype=torch.float64)
    steps = (2 * torch.arange(16, dtype=torch.float64) + 1) / 16 - 1
    radius = (steps[:, None].square() + steps.square()).sqrt()
    y = disc_taper(x, 0.35)
    assert (y[..., radius >= 1] == 0).all()
    assert torch.equal(y[..., radius <= 0.65], x[..., radius <= 0.65])
    assert ((y >= 0) & (y <= x)).all()
    assert disc_taper(x, 0.0) is x


def spread_over_orientations(rim: float) -> float:
    """How much a constant background tells orientations apart, which all see the same of it."""
    torch.manual_seed(0)
    lift = LiftConv(SO(2), 1, 4, KernelSpec(9, network="rbf"), padding=4).double()
    x = disc_taper(torch.ones(1, 1, 48, 48, dtype=torch.float64), rim)
    seen = torch.relu(lift(x, equidistant_rotations(24))[0]).mean((0, 3, 4))
    return float((seen.std(1) / seen.mean(1)).detach().mean())


def test_background_that_ends_in_a_circle_looks_alike_from_every_side() -> None:
    assert spread_over_orientations(0.35) < spread_over_orientations(0.0) / 10


# As checkpoints hold it.
SAVED: dict[str, object] = {
    "num_classes": 4, "group": "GLPlus", "rotations": "octahedral", "centers": [24, 8],
    "neighbors": [6, 5], "radii": [0.8, 1.5], "channels": [8, 10, 12], "rank": 3, "gaussians": 4,
    "dropout": 0.1,
}  # fmt: skip


def test_checkpoints_are_read() -> None:
    config = AffinePointNetConfig.from_dict(SAVED)
    assert config == AffinePointNetConfig(
        4, "GLPlus", "octahedral", (24, 8), (6, 5), (0.8, 1.5), (8, 10, 12), 3, 4, 0.1
    )
    assert config.to_dict() == SAVED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "SL"}, "group must be one of"),
        ({"rotations": "cyclic"}, "rotations must be"),
        ({"centers": (8, 16)}, "must not become more"),
        ({"radii": (1.0,)}, "radii must be 2 numbers"),
        ({"radii": (1.0, 0.0)}, "radii must be positive"),
        ({"channels": (1, 0, 2)}, "channels must be at least 1"),
        ({"rank": 0}, "rank must be at least 1"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AffinePointNetConfig(5, **settings)
    with pytest.raises(ValueError, match="unknown"):
        AffinePointNetConfig.from_dict({"num_classes": 5, "colour": 1})
