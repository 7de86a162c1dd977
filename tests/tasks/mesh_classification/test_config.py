from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.mesh_classification import MESH_RECIPES, MeshConfig


@pytest.mark.parametrize("preset", MESH_RECIPES)
def test_config_survives_json(preset):
    config = MeshConfig("folder/x", MESH_RECIPES[preset], preset, 7, 2, 5, "16", 2, 4)
    assert MeshConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("preset", MESH_RECIPES)
def test_every_recipe_has_a_model(preset):
    PrimalDualClassifier.preset(preset, 3)


def test_paper_recipe_is_the_released_one():
    paper = MESH_RECIPES["paper"]
    assert (paper.optimizer, paper.learning_rate, paper.epochs, paper.batch_size) == (
        "adam", 2e-4, 200, 16,
    )  # fmt: skip
    assert (paper.schedule, paper.jitter, paper.label_smoothing, paper.weight_decay) == (
        "constant", 0, 0, 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("split", "17"), ("preset", "best"), ("seed", -1), ("devices", 0), ("holdout", -2)],
)
def test_config_out_of_range_names_field_and_value(field, value):
    with pytest.raises(ValueError, match=f"{field} must .*{value}"):
        replace(MeshConfig("builtin"), **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("learning_rate", float("nan")),
        ("learning_rate", 0.0),
        ("weight_decay", -1.0),
        ("jitter", float("inf")),
        ("logit_adjustment", -0.5),
        ("label_smoothing", 1.0),
        ("ema_decay", 1.0),
        ("optimizer", "sgd"),
        ("schedule", "linear"),
    ],
)
def test_recipe_out_of_range_names_field_and_value(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        replace(MESH_RECIPES["default"], **{field: value})


@pytest.mark.parametrize(
    "change",
    [
        {"seed": "0"},
        {"seed": True},
        {"data": 3},
        {"recipe": 3},
        {"recipe": {}},
        {"split": "17"},
        {"surplus": 1},
    ],
)
def test_damaged_config_is_refused(change):
    with pytest.raises(ValueError, match=r"configuration|recipe"):
        MeshConfig.from_dict(MeshConfig("builtin").to_dict() | change)


@pytest.mark.parametrize("values", [None, [], 3, {}])
def test_something_else_than_a_config_is_refused(values):
    with pytest.raises(ValueError, match="the configuration"):
        MeshConfig.from_dict(values)
