"""A tiny run on meshes: fixtures for the tests of the task and of the loop."""

import pytest
import torch

from equigeo.mesh import ClassifierConfig, PrimalDualClassifier
from equigeo.tasks.mesh_classification import MeshClassification, MeshConfig
from equigeo.training import Recipe
from equigeo.training.loop.module import L
from tests.tasks.tiny_data import tiny_dataset


@pytest.fixture(scope="session")
def dataset():
    return tiny_dataset()


@pytest.fixture(scope="session")
def config():
    recipe = Recipe(epochs=3, batch_size=4, learning_rate=1e-2, jitter=0.02)
    return MeshConfig("memory", recipe=recipe)


def small_classifier(seed: int = 0) -> PrimalDualClassifier:
    """Build a small model whose initial weights depend on the seed alone; it pools, too."""
    with torch.random.fork_rng():
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return PrimalDualClassifier(
            ClassifierConfig(3, channels=(8, 8), keep=(0.7, None), dropout=0.3)
        )


@pytest.fixture(scope="session")
def small_model():
    return small_classifier


class StopAfterTwo(L.Callback):
    """End the session after the second epoch."""

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch == 1


def assert_same_state(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def train_meshes(config, dataset, output, **options):
    return MeshClassification().train(config, output, data=dataset, **options)
