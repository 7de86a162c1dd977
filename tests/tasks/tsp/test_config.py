from __future__ import annotations

import json

import pytest

from equigeo.tasks.tsp import (
    TOUR_RECIPES,
    TourConfig,
)
from equigeo.training import Recipe


@pytest.mark.parametrize("preset", TOUR_RECIPES)
def test_the_configuration_survives_json(preset):
    config = TourConfig("uniform", TOUR_RECIPES[preset], preset, 3, 2, 1, "plain", 50, 9)
    assert TourConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "clusters"}, "data must be uniform"),
        ({"model": "best"}, "model must be mds or plain"),
        ({"cities": 2}, "cities must be at least 3"),
        ({"instances": 0}, "instances must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
        ({"preset": "large"}, "preset must be one of default, paper"),
        ({"recipe": Recipe(1, 2, 1e-3, jitter=0.1)}, "jitter must be 0 for tours"),
        ({"recipe": Recipe(1, 2, 1e-3, label_smoothing=0.1)}, "label_smoothing must be 0"),
        ({"recipe": Recipe(1, 2, 1e-3, logit_adjustment=1)}, "logit_adjustment must be 0"),
    ],
)
def test_a_configuration_out_of_range_names_its_field(changes, message):
    with pytest.raises(ValueError, match=message):
        TourConfig(**changes)
