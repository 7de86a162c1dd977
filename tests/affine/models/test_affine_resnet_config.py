"""The configuration: parts, presets, checks, and the flat form of older checkpoints."""

from typing import Any

import pytest

from equigeo.affine import (
    AffineResNet,
    AffineResNetConfig,
    ConvolutionsConfig,
    FrameConfig,
    HeadConfig,
    LiftConfig,
    SamplesConfig,
    StagesConfig,
)
from tests.wrong_inputs import refused

# As checkpoints held it before the configuration had parts: every name with a value of its own.
FLAT: dict[str, Any] = {
    "num_classes": 5, "group": "SO", "frame": False, "frame_size": 24, "frame_extent": 2.0,
    "blur": 0.5, "rim": 0.1, "samples": 6, "stretch_std": 0.3, "channels": [3, 4, 4],
    "pool": [True, False, True], "pooling": "max", "blocks": 2, "block_convs": 3, "features": 7,
    "lift_size": 6, "lift_stride": 1, "lift_padding": 2, "size": 3, "last_size": 4,
    "separable": False, "network": "siren", "lift_centers": 8, "centers": 9, "window": "disc",
    "extent": 0.9, "stretch_reach": 0.8, "norm": "layer", "head": "orientation",
    "orientation_window": 45.0, "output_rotations": 16, "dropout": 0.2,
}  # fmt: skip
NESTED = AffineResNetConfig(
    5,
    SamplesConfig(group="SO", count=6, stretch_std=0.3),
    FrameConfig(use=False, size=24, extent=2.0),
    LiftConfig(size=6, stride=1, padding=2, centers=8),
    ConvolutionsConfig(
        separable=False,
        network="siren",
        centers=9,
        window="disc",
        extent=0.9,
        stretch_reach=0.8,
        norm="layer",
        rim=0.1,
    ),
    StagesConfig(
        channels=(3, 4, 4), pool=(True, False, True), pooling="max", blocks=2, convs=3, size=3
    ),
    HeadConfig(features=7, size=4, kind="orientation", window=45.0, rotations=16, dropout=0.2),
)
# What the presets were in that form.
DEFAULT: dict[str, Any] = {
    "num_classes": 10, "group": "SO", "frame": True, "frame_size": 32, "frame_extent": 2.7,
    "blur": 0.7, "rim": 0.35, "samples": 12, "stretch_std": 0.158, "channels": [16, 16],
    "pool": [True, False], "pooling": "binomial", "blocks": 1, "block_convs": 1, "features": 48,
    "lift_size": 8, "lift_stride": 2, "lift_padding": 3, "size": 5, "last_size": 8,
    "separable": True, "network": "rbf", "lift_centers": 5, "centers": 4, "window": "compact",
    "extent": 0.87, "stretch_reach": 1.0, "norm": "batch", "head": "orientation",
    "orientation_window": 60.0, "output_rotations": 24, "dropout": 0.3,
}  # fmt: skip
PAPER: dict[str, Any] = {
    **DEFAULT, "group": "SL", "frame": False, "blur": 0.0, "rim": 0.0, "samples": 10,
    "channels": [40], "pool": [True], "pooling": "max", "block_convs": 2, "features": 40,
    "lift_size": 5, "lift_stride": 1, "lift_padding": 0, "last_size": 5, "separable": False,
    "network": "siren", "window": "disc", "extent": 1.0, "norm": "layer", "head": "max",
    # what this preset does not use
    "frame_extent": 2.4, "orientation_window": 180.0, "output_rotations": 12,
}  # fmt: skip


def test_flat_form_of_old_checkpoints_is_read() -> None:
    assert AffineResNetConfig.from_dict(FLAT) == NESTED
    assert AffineResNetConfig.from_dict(NESTED.to_dict()) == NESTED


@pytest.mark.parametrize(
    ("flat", "preset"),
    [
        (PAPER, AffineResNetConfig.paper(10)),
        ({**PAPER, "group": "GLPlus", "window": "sigmoid"}, AffineResNetConfig.paper(10, "GLPlus")),
        ({"num_classes": 10}, AffineResNetConfig(10)),
    ],
)
def test_presets_are_what_they_were(flat: dict[str, Any], preset: AffineResNetConfig) -> None:
    assert AffineResNetConfig.from_dict(flat) == preset


@pytest.mark.parametrize(
    "values", [DEFAULT, {"num_classes": 10, "frame": {"blur": 0.7}}], ids=["flat", "nested"]
)
def test_frames_that_smoothed_in_pixels_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"blur = 0\.7, in pixels of the image, .* trained again"):
        AffineResNetConfig.from_dict(values)
    without = {"num_classes": 10, "frame": {"use": False, "blur": 0.7}}
    assert AffineResNetConfig.from_dict(without).frame == FrameConfig(use=False)


def test_network_of_an_old_checkpoint_has_the_parameters_that_it_holds() -> None:
    old = AffineResNet.from_config(FLAT).state_dict()
    new = AffineResNet(NESTED).state_dict()
    assert {name: x.shape for name, x in old.items()} == {name: x.shape for name, x in new.items()}
    assert "stages.1.widen.kernel.network.hidden.0.weight" in old
    assert "head.attend.weight" in old


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "SL"}, "orientation head needs"),
        ({"channels": ()}, "must be positive"),
        ({"pool": (True,)}, "equally long"),
        ({"size": 4}, "odd"),
        ({"samples": 0}, "count must be at least 1, got 0"),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ({"rim": 1.5}, "rim must be between 0 and 1"),
        ({"group": "O"}, "'SO', 'SL', 'GLPlus'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    refused(message, AffineResNetConfig.from_dict, {"num_classes": 5, **settings})
    refused("unknown", AffineResNetConfig.from_dict, {"num_classes": 5, "colour": 1})
    refused("missing fields \\['num_classes'\\]", AffineResNetConfig.from_dict, {})


def test_wrong_arguments_raise():
    refused(
        "unknown fields",
        AffineResNetConfig.from_dict,
        {"num_classes": 5, "head": {"features": 4}, "size": 3},
    )
    refused("orientation head needs", AffineResNetConfig, 5, samples=SamplesConfig(group="SL"))
    refused("group must be one of SO, SL, GLPlus", SamplesConfig, group="O")
    refused("must be positive", StagesConfig, channels=(), pool=())


@pytest.mark.parametrize("group", ["SL", "GLPlus"])
def test_batch_norm_is_refused_where_samples_are_drawn_afresh(group: Any) -> None:
    samples, head = SamplesConfig(group, 4), HeadConfig(kind="max")
    with pytest.raises(ValueError, match="drawn afresh for every batch"):
        AffineResNetConfig(5, samples=samples, head=head)
    AffineResNetConfig(5, samples=samples, head=head, convolutions=ConvolutionsConfig(norm="layer"))
