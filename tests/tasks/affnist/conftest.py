from __future__ import annotations

import pytest

from equigeo.tasks.affnist import (
    IMAGE_MODELS,
    AffNISTClassification,
    ImageConfig,
)
from equigeo.training import Recipe
from tests.tasks import stand_in


@pytest.fixture(autouse=True)
def _model(monkeypatch):
    for preset in ("default", "paper"):
        monkeypatch.setitem(IMAGE_MODELS, preset, stand_in.AffineResNet)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return stand_in.write_tiny_mnist(tmp_path_factory.mktemp("mnist"))


@pytest.fixture
def config(folder):
    recipe = Recipe(epochs=3, batch_size=8, learning_rate=1e-2, label_smoothing=0.1)
    return ImageConfig(str(folder), recipe=recipe, test_images=30)


@pytest.fixture(scope="session")
def trained(folder, tmp_path_factory):
    recipe = Recipe(epochs=2, batch_size=8, learning_rate=1e-2)
    config = ImageConfig(str(folder), recipe=recipe, test_images=12)
    with stand_in.installed():
        return AffNISTClassification().train(config, tmp_path_factory.mktemp("run") / "run")
