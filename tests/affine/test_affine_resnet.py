"""The image network: published parameter counts, configuration, parts, invariance."""

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any, Literal, cast

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from equigeo.affine import (
    AffineResNet,
    AffineResNetConfig,
    ConvolutionsConfig,
    GroupConv,
    HeadConfig,
    KernelSpec,
    LiftConv,
    SampleBatchNorm,
    SamplesConfig,
    SeparableGroupConv,
    StagesConfig,
    WindowWarning,
)
from equigeo.affine.affine_resnet import (
    GroupResidual,
    MaxHead,
    OrientationHead,
    ResidualStage,
    disc_taper,
    downsample,
    make_group_conv,
    make_head,
)
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import SO, GLPlus, GroupSamples, equidistant_rotations, rotation_log
from equigeo.testing import tolerance
from tests.affine.analytic_features import GaussianMixture
from tests.wrong_inputs import refused

CLOSE = tolerance(torch.float64, terms=40 * 40)  # the pixels whose moments are the frame


def small(samples: int = 8, **head: Any) -> AffineResNet:
    torch.manual_seed(0)
    config = AffineResNetConfig(
        5,
        samples=SamplesConfig(count=samples),
        stages=StagesConfig(channels=(4, 6)),
        head=HeadConfig(features=8, **head),
    )
    return AffineResNet(config).double().eval()


def digit() -> torch.Tensor:
    image = torch.zeros(1, 1, 40, 40, dtype=torch.float64)
    image[..., 12:26, 14:24] = torch.rand(14, 10, generator=torch.Generator().manual_seed(0))
    return image


def test_shifts_and_quarter_turns_are_exact_without_a_window() -> None:
    model, within, x = small(), small(window=60.0, rotations=24), digit()
    turned = x.rot90(1, (-2, -1))
    torch.testing.assert_close(model(x.roll((5, -7), (-2, -1))), model(x), **CLOSE)
    torch.testing.assert_close(model(turned), model(x), **CLOSE)
    assert float((within(turned) - within(x)).detach().abs().max()) > 1e-4


def blobs(generator: torch.Generator) -> GaussianMixture:
    """Some round spots, in places of their own."""
    means = 1.6 * torch.rand(5, 2, dtype=torch.float64, generator=generator) - 0.8
    spots = 0.06 * torch.eye(2, dtype=torch.float64).expand(5, 2, 2)
    return GaussianMixture(torch.ones(5, dtype=torch.float64), means, spots)


@pytest.mark.full
def test_affine_maps_change_logits_little_before_training() -> None:
    fixed = torch.Generator().manual_seed(0)
    maps = GLPlus(2).sample(8, radius=0.3, generator=fixed)
    shapes = [blobs(fixed) for _ in range(8)]
    grid = kernel_grid(40, 2, 3.0)

    def draw(a: torch.Tensor) -> torch.Tensor:
        return torch.stack([f.moved(a).values(grid).view(1, 40, 40) for f in shapes])

    changes = {}
    for window in (180.0, 60.0):
        torch.manual_seed(0)
        model = AffineResNet(head={"window": window, "rotations": 12}).double().eval()
        with torch.no_grad():
            first, *others = (model(draw(a)) for a in maps)
        spread = (first - first.mean(0)).square().sum()
        moved = torch.stack([(x - first).square().sum() for x in others]).mean()
        changes[window] = float((moved / spread).sqrt())
    assert changes[180.0] < 0.02
    assert changes[60.0] > 5 * changes[180.0]


def test_odd_numbers_of_rotations_are_not_invariant_to_quarter_turns() -> None:
    config = small(samples=3, rotations=3).config
    sharp = {"smoothing": 0.0, "residual": False}  # what is smooth depends on angles hardly at all
    model, x = AffineResNet(config, frame=sharp).double().eval(), digit()
    assert float((model(x.rot90(1, (-2, -1))) - model(x)).detach().abs().max()) > 1e-5


def test_configuration_rebuilds_the_network_with_equal_names() -> None:
    model, x = small(), digit()
    for config in (model.config, json.loads(json.dumps(model.config.to_dict()))):
        again = AffineResNet.from_config(config).double().eval()
        again.load_state_dict(model.state_dict())
        torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)
    stages = StagesConfig(channels=(3, 4), pool=(True, False), size=3)
    names = {*AffineResNet(AffineResNetConfig(5, stages=stages)).state_dict()}
    assert {"stages.1.widen.group_kernel.network.weight", "head.attend.weight"} <= names


def test_published_network_draws_in_training_and_is_fixed_in_use() -> None:
    paper = AffineResNetConfig.paper(3)
    config = dataclasses.replace(
        paper,
        samples=dataclasses.replace(paper.samples, count=4),
        stages=dataclasses.replace(paper.stages, channels=(3,)),
        head=dataclasses.replace(paper.head, features=3),
    )
    model, x = AffineResNet(config), digit().float()
    model.train()
    with pytest.warns(WindowWarning, match="only approximate"):
        assert not torch.equal(model(x), model(x))
    model.eval()
    with pytest.warns(WindowWarning, match="only approximate"):
        assert torch.equal(model(x), model(x))


def test_images_may_have_colours_or_be_arrays() -> None:
    one, three = AffineResNet.preset("default", 4).eval(), AffineResNet(in_channels=3).eval()
    assert three.config == AffineResNetConfig(10, in_channels=3)
    image = torch.rand(2, 1, 40, 40)
    colours = image.expand(-1, 3, -1, -1)
    assert three(colours).shape == (2, 10)
    frames = one.frame.elements(image), three.frame.elements(colours)
    torch.testing.assert_close(*frames, **tolerance(torch.float32, terms=40 * 40))
    again = AffineResNet.from_config(three.config.to_dict())
    again.load_state_dict(three.state_dict())
    assert torch.allclose(one(image.double().numpy()), one(image))
    plain = {k: v for k, v in AffineResNetConfig(10).to_dict().items() if k != "in_channels"}
    assert AffineResNetConfig.from_dict(plain).in_channels == 1  # checkpoints before there were any


@pytest.mark.parametrize(("name", "channels"), [("default", (8, 4)), ("paper", (8,))])
def test_changes_of_a_preset_keep_the_rest(name: str, channels: tuple[int, ...]) -> None:
    changes = {"in_channels": 3, "head": {"dropout": 0.5}, "stages": {"channels": channels}}
    config = AffineResNet.preset(name, 4, **changes).config
    assert (config.in_channels, config.head.dropout) == (3, 0.5)
    assert config.stages.channels == channels
    assert config.head.features == AffineResNet.preset(name, 4).config.head.features


def test_options_and_images_that_do_not_fit_raise() -> None:
    refused("preset", AffineResNet.preset, "other")
    refused("in_channels must be at least 1, got 0", AffineResNet, in_channels=0)
    refused("unknown fields .'chanels'.", AffineResNet, chanels=3)
    message = "must be a AffineResNetConfig, got d"
    refused(message, AffineResNet, {"num_classes": 3}, error=TypeError)
    message = "the head has missing fields .. and unknown fields .'dropuot'."
    refused(message, AffineResNet.preset, "default", head={"dropuot": 0.5})
    images, model = torch.rand(2, 3, 40, 40), AffineResNet()
    refused(r"images must be \(B, 1, H, W\), got \(2, 3, 40, 40\)", model, images)
    message = r"images must be torch\.float32 as the weights are, got torch\.float64"
    refused(message, model, images[:, :1].double(), error=TypeError)


PAPER: dict[str, Any] = {
    "num_classes": 10, "in_channels": 1,
    "samples": {"group": "SL", "count": 10, "stretch_std": 0.158},
    "frame": {"use": False, "size": 32, "extent": 2.4, "smoothing": 0.25, "residual": True},
    "lift": {"size": 5, "stride": 1, "padding": 0, "centers": 5},
    "convolutions": {
        "separable": False, "network": "siren", "centers": 4, "window": "disc", "extent": 1.0,
        "stretch_reach": 1.0, "norm": "layer", "rim": 0.0,
    },
    "stages": {
        "channels": [40], "pool": [True], "pooling": "max", "blocks": 1, "convs": 2, "size": 5,
    },
    "head": {
        "features": 40, "size": 5, "kind": "max", "window": 180.0, "prior": 4, "prior_noise": 45.0,
        "rotations": 12, "dropout": 0.3,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "window", "parameters"), [("SL", "disc", 339_102), ("GLPlus", "sigmoid", 339_282)]
)
def test_paper_preset_keeps_its_values(group: Any, window: str, parameters: int) -> None:
    config = AffineResNetConfig.paper(10, group)
    expected = copy.deepcopy(PAPER)
    expected["samples"]["group"], expected["convolutions"]["window"] = group, window
    assert config.to_dict() == expected
    assert AffineResNetConfig.from_dict(expected) == config
    assert sum(p.numel() for p in AffineResNet(config).parameters()) == parameters


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": {"group": "SL"}}, "orientation head needs"),
        ({"stages": {"channels": ()}}, "must be positive"),
        ({"stages": {"pool": (True,)}}, "equally long"),
        ({"stages": {"size": 4}}, "odd"),
        ({"samples": {"count": 0}}, "count must be at least 1, got 0"),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ({"convolutions": {"rim": 1.5}}, "rim must be between 0 and 1"),
        ({"samples": {"group": "O"}}, "'SO', 'SL', 'GLPlus'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    refused(message, AffineResNetConfig.from_dict, {"num_classes": 5, **settings})
    refused("unknown", AffineResNetConfig.from_dict, {"num_classes": 5, "colour": 1})
    refused("missing fields \\['num_classes'\\]", AffineResNetConfig.from_dict, {})


@pytest.mark.parametrize("group", ["SL", "GLPlus"])
def test_batch_norm_of_samples_drawn_afresh_raises(group: Any) -> None:
    samples, head = SamplesConfig(group, 4), HeadConfig(kind="max")
    refused("drawn afresh for every batch", AffineResNetConfig, 5, samples=samples, head=head)
    AffineResNetConfig(5, samples=samples, head=head, convolutions=ConvolutionsConfig(norm="layer"))


def oriented(**options: Any) -> tuple[OrientationHead, torch.Tensor, GroupSamples]:
    x = torch.rand(2, 4, 8, 1, 1, dtype=torch.float64)
    return OrientationHead(4, 3, **options).double(), x, equidistant_rotations(8)


ANGLES = rotation_log(equidistant_rotations(8).h).flatten().abs()
UPRIGHT = ANGLES.argmin()


def test_head_reads_all_logits_where_one_score_looks() -> None:
    head, x, rotations = oriented(window=180.0)
    torch.nn.init.constant_(head.attend.weight, 10.0)
    x[:, :, 5] += 5.0
    torch.testing.assert_close(head(x, rotations), head.classify(x[:, :, 5, 0, 0]))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))


def test_window_of_the_head_leaves_out_what_stands_on_its_head() -> None:
    head, x, rotations = oriented(window=60.0)
    weight = head.attention(x[..., 0, 0], rotations)
    torch.testing.assert_close(weight.sum(1), torch.ones(2, dtype=torch.float64))
    assert float(weight[:, ANGLES > 3].max().detach()) < math.exp(-((180 / 60) ** 4))
    assert (weight.argmax(1) == UPRIGHT).all()  # untrained, the window decides alone


def test_prior_begins_as_none_and_learns_where_images_stand() -> None:
    head, x, rotations = oriented(prior=2)
    plain = OrientationHead(4, 3).double()
    head.load_state_dict(plain.state_dict() | {"prior": head.prior})
    torch.testing.assert_close(head(x, rotations), plain(x, rotations))
    torch.testing.assert_close(head(x.roll(3, 2), rotations), head(x, rotations))
    head(x, rotations)[:, 0].sum().backward()
    assert head.prior.grad is not None
    assert head.prior.grad.norm() > 0
    with torch.no_grad():
        head.prior[0] = 10.0  # the cosine of the angle itself
    assert (head.attention(x[..., 0, 0], rotations).argmax(1) == UPRIGHT).all()


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


def normed(norm: Literal["batch", "layer"]) -> AffineResNet:
    config = dataclasses.replace(small().config, convolutions=ConvolutionsConfig(norm=norm))
    model = AffineResNet(config).double().eval()
    for part in model.modules():
        if isinstance(part, SampleBatchNorm):
            for tensor in (*part.parameters(), part.running_mean, part.running_var):
                torch.nn.init.uniform_(cast(torch.Tensor, tensor), 0.5, 2.0)
    return model


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_logits_without_gradients_are_equal_and_leave_images(norm: Any) -> None:
    model, image = normed(norm), digit()
    before, logits = image.clone(), model(image)
    with torch.no_grad():
        torch.testing.assert_close(model(image), logits)
    torch.testing.assert_close(image, before, rtol=0, atol=0)


def test_features_that_hooks_keep_are_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    model, image, kept = normed("batch"), digit(), []
    model.stages[1].register_forward_hook(lambda _, inputs, x: kept.append(x))
    model(image)
    with torch.no_grad():
        model(image)
        monkeypatch.setattr("equigeo._core.tensors.has_hooks", lambda part: False)
        model(image)
    torch.testing.assert_close(kept[1], kept[0].detach())
    assert not torch.allclose(kept[2], kept[0])  # where hooks are not seen


class Halved(torch.nn.Module):
    """A stage of a user."""

    def __init__(self, stage: torch.nn.Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: torch.Tensor, samples: GroupSamples) -> torch.Tensor:
        return self.stage(x, samples) / 2


def replace_stage(model: AffineResNet) -> None:
    model.stages[1] = Halved(model.stages[1])


def replace_frame(model: AffineResNet) -> None:
    model.frame = torch.nn.Identity()


def patch_norm(model: AffineResNet) -> None:
    before = model.lift_norm.forward
    model.lift_norm.forward = lambda x: before(x) / 2


@pytest.mark.parametrize("change", [replace_stage, replace_frame, patch_norm])
def test_changed_parts_run_without_gradients(change: Callable[[AffineResNet], None]) -> None:
    model, image = normed("batch"), digit()
    change(model)
    before, logits = image.clone(), model(image)
    with torch.no_grad():
        torch.testing.assert_close(model(image), logits)
    torch.testing.assert_close(image, before, rtol=0, atol=0)


def test_observers_and_forward_mode_see_features_that_last() -> None:
    model, image, tangent = normed("batch"), digit(), torch.ones(1, 1, 40, 40).double()
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    class Observer(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
            out = function(*args, **(kwargs or {}))
            if function is F.conv2d:
                kept.append((out, out.clone()))
            return out

    with torch.no_grad(), Observer():
        model(image)
    assert len(kept) > 3
    for out, copied in kept:
        torch.testing.assert_close(out, copied, rtol=0, atol=0)
    with torch.no_grad(), forward_ad.dual_level():
        found = forward_ad.unpack_dual(model(forward_ad.make_dual(image, tangent))).tangent
    _, expected = torch.func.jvp(model, (image,), (tangent,))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("channels", [3, 5])
def test_stages_widen_only_where_channels_change(channels: int) -> None:
    config = AffineResNetConfig(2, stages=StagesConfig((5,), (False,), blocks=2, convs=3, size=3))
    stage, x = ResidualStage(config, channels, 5), torch.rand(2, channels, 4, 6, 6)
    assert (stage.widen is None) == (channels == 5)
    assert [len(block.convs) for block in stage.blocks] == [3, 3]
    assert stage(x, equidistant_rotations(4)).shape == (2, 5, 4, 6, 6)


@pytest.mark.parametrize(("separable", "kind"), [(True, SeparableGroupConv), (False, GroupConv)])
def test_configuration_chooses_the_convolution(separable: bool, kind: type) -> None:
    config = AffineResNetConfig(2, convolutions=ConvolutionsConfig(separable=separable))
    conv = make_group_conv(config, 3, 4, 5, 2)
    assert type(conv) is kind
    assert (conv.spec.size, conv.spec.centers, conv.padding, conv.bias) == (5, 4, 2, None)


@pytest.mark.parametrize("sides", [(8, 8), (7, 10), (1, 5), (2, 3)])
def test_binomial_pooling_is_a_strided_convolution(sides: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 4, *sides, dtype=torch.float64)
    weights = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64) / 8
    padded = F.pad(x.flatten(0, 2)[:, None], (1, 1, 1, 1))
    if min(padded.shape[-2:]) < 4:
        padded = F.pad(padded, (0, 4, 0, 4))
    expected = F.conv2d(padded, (weights[:, None] * weights)[None, None], stride=2)[:, 0]
    expected = expected[:, : sides[0] // 2, : sides[1] // 2].unflatten(0, (2, 3, 4))
    torch.testing.assert_close(
        downsample(x, "binomial"), expected, **tolerance(torch.float64, terms=4 * 4)
    )


@pytest.mark.parametrize("pooling", ["binomial", "max"])
def test_pooling_turns_and_reflects_with_features(pooling: Literal["binomial", "max"]) -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
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
