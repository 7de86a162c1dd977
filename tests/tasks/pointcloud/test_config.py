from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equigeo.tasks.pointcloud import (
    POINT_PRESETS,
    PointCloudClassification,
    PointConfig,
)

PRESETS = [(model, preset) for model, presets in POINT_PRESETS.items() for preset in presets]


@pytest.mark.parametrize(("model", "preset"), PRESETS)
def test_presets_give_recipe_points_and_a_model_and_survive_json(model, preset, tmp_path):
    options = {"data": "x", "preset": preset, "model": model, "seed": 3, "holdout": 5}
    config = PointCloudClassification().configure(tmp_path, options)
    said = POINT_PRESETS[model][preset]
    assert (config.recipe, config.points) == (said.recipe, said.points)
    assert (config.preset, config.model, config.seed, config.holdout) == (preset, model, 3, 5)
    assert config == replace(PointConfig.of_preset(config.data, preset, model), seed=3, holdout=5)
    fewer = PointCloudClassification().configure(tmp_path, options | {"points": 7})
    assert fewer == replace(config, points=7)
    assert PointConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": 0}, "points must be at least 1"),
        ({"holdout": -1}, "holdout must not be negative"),
        ({"model": "best"}, "model must be one of affine, mds, plain"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        PointConfig("x", **changes)
    with pytest.raises(ValueError, match=message):
        PointCloudClassification().configure(tmp_path, {"data": "x"} | changes)
