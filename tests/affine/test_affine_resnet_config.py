"""The configuration: parts, presets and checks."""

import copy
from typing import Any

import pytest

from equigeo.affine import (
    AffineResNet,
    AffineResNetConfig,
    ConvolutionsConfig,
    HeadConfig,
    SamplesConfig,
    StagesConfig,
)
from tests.wrong_inputs import refused

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


@pytest.mark.parametrize("group", ["SL", "GLPlus"])
def test_paper_preset_keeps_its_values(group: Any) -> None:
    config = AffineResNetConfig.paper(10, group)
    expected = copy.deepcopy(PAPER)
    if group == "GLPlus":
        expected["samples"]["group"], expected["convolutions"]["window"] = group, "sigmoid"
    assert config.to_dict() == expected
    assert AffineResNetConfig.from_dict(expected) == config


def test_parameters_keep_their_names() -> None:
    stages = StagesConfig(channels=(3, 4), pool=(True, False), size=3)
    names = {*AffineResNet(AffineResNetConfig(5, stages=stages)).state_dict()}
    assert {"stages.1.widen.group_kernel.network.weight", "head.attend.weight"} <= names


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
