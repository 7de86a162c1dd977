"""The network: counts of the published one, configuration, invariance."""

import dataclasses
import json
from typing import Any

import pytest
import torch

from equigeo.affine import (
    AffineResNet,
    AffineResNetConfig,
    HeadConfig,
    SamplesConfig,
    StagesConfig,
    WindowWarning,
)
from equigeo.affine.kernels import kernel_grid
from equigeo.groups import GLPlus
from equigeo.testing import tolerance
from tests.affine.analytic_features import GaussianMixture

CLOSE = tolerance(torch.float64, terms=40 * 40)  # the pixels whose moments are the frame


@pytest.mark.parametrize(("group", "count"), [("SL", 339_102), ("GLPlus", 339_282)])
def test_published_number_of_parameters(group: str, count: int) -> None:
    model = AffineResNet(AffineResNetConfig.paper(10, group))
    assert sum(p.numel() for p in model.parameters()) == count


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


def test_shifts_by_pixels_are_exact() -> None:
    model, x = small(), digit()
    torch.testing.assert_close(model(x.roll((5, -7), (-2, -1))), model(x), **CLOSE)


def test_quarter_turns_are_exact_without_a_window_and_seen_with_one() -> None:
    x = digit()
    turned = x.rot90(1, (-2, -1))
    without, within = small(), small(window=60.0, rotations=24)
    torch.testing.assert_close(without(turned), without(x), **CLOSE)
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


def test_configuration_rebuilds_the_network() -> None:
    model, x = small(), digit()
    for config in (model.config, json.loads(json.dumps(model.config.to_dict()))):
        again = AffineResNet.from_config(config).double().eval()
        again.load_state_dict(model.state_dict())
        torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)


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


def test_unknown_preset_is_named() -> None:
    with pytest.raises(ValueError, match="preset"):
        AffineResNet.preset("other")


def test_images_of_colours_and_changes_of_a_preset() -> None:
    model = AffineResNet(in_channels=3).eval()
    assert model.config == AffineResNetConfig(10, in_channels=3)
    assert model(torch.rand(2, 3, 40, 40)).shape == (2, 10)
    again = AffineResNet.from_config(model.config.to_dict())
    again.load_state_dict(model.state_dict())
    changes = {"in_channels": 3, "head": {"dropout": 0.5}, "stages": {"channels": (8, 4)}}
    for name in ("default", "paper"):
        preset = AffineResNet.preset(name, 4).config
        if name == "paper":
            changes["stages"] = {"channels": (8,)}
        config = AffineResNet.preset(name, 4, **changes).config
        assert (config.in_channels, config.head.dropout) == (3, 0.5)
        assert config.stages.channels == changes["stages"]["channels"]
        assert config.head.features == preset.head.features
    plain = {k: v for k, v in AffineResNetConfig(10).to_dict().items() if k != "in_channels"}
    assert AffineResNetConfig.from_dict(plain).in_channels == 1  # checkpoints before there were any


def test_colours_that_are_alike_are_brightness() -> None:
    one, three = AffineResNet.preset("default", 4).eval(), AffineResNet(in_channels=3).eval()
    image = torch.rand(2, 1, 40, 40)
    frames = [
        model.frame.elements(image.expand(-1, c, -1, -1)) for model, c in ((one, 1), (three, 3))
    ]
    torch.testing.assert_close(*frames, **tolerance(torch.float32, terms=40 * 40))


def test_arrays_are_images() -> None:
    model = AffineResNet.preset("default", 4).eval()
    image = torch.rand(2, 1, 40, 40)
    assert torch.allclose(model(image.double().numpy()), model(image))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: AffineResNet(in_channels=0), ValueError, "in_channels must be at least 1, got 0"),
        (lambda: AffineResNet(chanels=3), ValueError, "unknown fields .'chanels'."),
        (
            lambda: AffineResNet({"num_classes": 3}),
            TypeError,
            "must be a AffineResNetConfig, got d",
        ),
        (
            lambda: AffineResNet.preset("default", head={"dropuot": 0.5}),
            ValueError,
            "the head has missing fields .. and unknown fields .'dropuot'.",
        ),
        (
            lambda: AffineResNet()(torch.rand(2, 3, 40, 40)),
            ValueError,
            r"images must be \(B, 1, H, W\), got \(2, 3, 40, 40\)",
        ),
        (
            lambda: AffineResNet()(torch.rand(2, 1, 40, 40).double()),
            TypeError,
            r"images must be torch\.float32 as the weights are, got torch\.float64",
        ),
    ],
)
def test_what_does_not_fit_is_named(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
