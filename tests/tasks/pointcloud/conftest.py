from __future__ import annotations

import pytest

from equigeo.tasks.pointcloud import (
    PointConfig,
)
from equigeo.training import Recipe
from tests.tasks import stand_in


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return stand_in.write_tiny_clouds(tmp_path_factory.mktemp("clouds"))


@pytest.fixture
def config(folder):
    recipe = Recipe(epochs=3, batch_size=6, learning_rate=1e-2, jitter=0.01, ema_decay=0.5)
    return PointConfig(str(folder), recipe=recipe, points=32)
