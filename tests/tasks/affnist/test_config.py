from __future__ import annotations

import json

import pytest

from equigeo.tasks.affnist import (
    IMAGE_RECIPES,
    ImageConfig,
)
from equigeo.training import Recipe


@pytest.mark.parametrize("preset", IMAGE_RECIPES)
def test_the_configuration_survives_json(preset):
    config = ImageConfig("x", IMAGE_RECIPES[preset], preset, 3, 2, 1, True, 500, 20)
    assert ImageConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_images": 0}, "test_images must be at least 1"),
        ({"digits": -1}, "digits must not be negative"),
        ({"preset": "best"}, "preset must be one of default, cnn, paper"),
        ({"recipe": Recipe(1, 8, 0.1, jitter=0.1)}, "jitter must be 0 for images"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message):
    with pytest.raises(ValueError, match=message):
        ImageConfig("x", **changes)


@pytest.mark.parametrize("change", [{"holdout": 1}, {"digits": True}, {"split": "folder"}])
def test_a_damaged_configuration_is_refused(change):
    with pytest.raises(ValueError, match="the configuration"):
        ImageConfig.from_dict(ImageConfig("x").to_dict() | change)


def test_the_paper_recipe_is_the_released_one():
    paper = IMAGE_RECIPES["paper"]
    assert (paper.optimizer, paper.learning_rate, paper.weight_decay) == ("adam", 2e-4, 5e-3)
    assert (paper.epochs, paper.batch_size, paper.schedule) == (50, 128, "cosine")
