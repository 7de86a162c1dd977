from __future__ import annotations

import pytest

from equigeo.tasks.tsp import (
    TourConfig,
    TravellingSalesman,
)
from equigeo.tasks.tsp import validation_instances as function
from equigeo.training import Recipe
from tests.tasks.tsp.small_model import small


@pytest.fixture
def config():
    recipe = Recipe(epochs=2, batch_size=32, learning_rate=3e-3, ema_decay=0.5)
    return TourConfig(recipe=recipe, cities=7, instances=96)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Both networks after the same training; tests must not change them."""
    recipe = Recipe(epochs=2, batch_size=32, learning_rate=3e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "_NUMBER", 50)
        return {
            inputs: TravellingSalesman().train(
                TourConfig(recipe=recipe, cities=8, instances=1280, model=inputs),
                tmp_path_factory.mktemp("runs") / inputs,
                model=small(inputs),
            )
            for inputs in ("mds", "plain")
        }
