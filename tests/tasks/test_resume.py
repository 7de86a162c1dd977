"""Runs of every task: stopped after every step and resumed, they end as if they were not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch

from equigeo.mds import InvariantPointNet, InvariantPointNetConfig
from equigeo.tasks import (
    AffNISTClassification,
    InteratomicPotential,
    MeshClassification,
    MeshSegmentation,
    PointCloudClassification,
    Task,
    TravellingSalesman,
)
from equigeo.tasks.affnist import ImageConfig
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.tasks.mesh_segmentation import SegmentationConfig
from equigeo.tasks.pointcloud import PointConfig
from equigeo.tasks.tsp import TourConfig, validation_instances
from equigeo.training import Recipe, RunConfig, time_limit
from equigeo.training.process import isolated_streams
from tests.tasks import stand_in
from tests.tasks.potential.frames import small_config, write
from tests.tasks.test_mesh_segmentation import halves, small_segmenter
from tests.tasks.test_tsp import small_tour_model
from tests.tasks.tiny_data import assert_same_state, small_classifier, tiny_dataset

pytest.importorskip("lightning.pytorch")


class Case(NamedTuple):
    """A tiny run: two epochs of so many steps."""

    task: Task
    config: RunConfig
    steps: int
    model: Callable[[], torch.nn.Module] | None = None
    data: Any = None


def recipe(batch_size, **changes):
    return Recipe(**{"epochs": 2, "batch_size": batch_size, "learning_rate": 1e-2} | changes)


def meshes(folder):
    # noise, stretch and resolution of every mesh; statistics, average, and vectors for novelty
    drawn = recipe(6, jitter=0.02, stretch=0.2, resolutions=(0.6,), update_bn=True, ema_decay=0.5)
    config = MeshConfig("memory", recipe=drawn, evaluate_every=1)
    return Case(MeshClassification(), config, 2, small_classifier, tiny_dataset())


def parts_of_meshes(folder):
    config = SegmentationConfig("memory", recipe=recipe(4, jitter=0.02))
    return Case(MeshSegmentation(), config, 1, small_segmenter, halves())


def images(folder):
    data = str(stand_in.write_tiny_mnist(folder / "mnist"))
    config = ImageConfig(data, recipe=recipe(8), test_images=12, digits=16)
    return Case(AffNISTClassification(), config, 2)


def clouds_in_drawn_frames(folder):
    data = str(stand_in.write_tiny_clouds(folder / "clouds"))
    config = PointConfig(
        data, recipe=recipe(12, jitter=0.01), model="mds", preset="pointnet", points=24
    )
    settings = InvariantPointNetConfig(
        3, "pointnet", {"widths": [4, 8], "hidden": [4]}, kind="frames", training_kind="frames",
        training_sample=True, upright=True,
    )  # fmt: skip
    return Case(PointCloudClassification(), config, 2, seeded(InvariantPointNet, settings))


def tours(folder):
    config = TourConfig(recipe=recipe(32, ema_decay=0.5), cities=7, instances=64)
    return Case(TravellingSalesman(), config, 2, small_tour_model)


def frames(folder):
    return Case(InteratomicPotential(), small_config(write(folder / "frames")), 3)


def seeded(build, *arguments):
    def model():
        with isolated_streams():
            torch.manual_seed(0)
            return build(*arguments)

    return model


def differ(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return any(not torch.equal(a, b) for a, b in pairs)


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(validation_instances.__globals__, "_NUMBER", 20)
    # two of the four meshes at a time
    monkeypatch.setattr("equigeo.tasks.common.mesh_data.TRAINED_FACES", 160)
    with stand_in.installed():
        yield


CASES = (meshes, parts_of_meshes, images, clouds_in_drawn_frames, tours, frames)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_run_stopped_after_every_step_ends_with_the_same_weights(case, tmp_path):
    task, config, steps, model, data = case(tmp_path)

    def train(name, config=config, **options):
        built = None if model is None else model()
        return task.train(config, tmp_path / name, data=data, model=built, **options)

    whole = train("whole")
    for session in range(2 * steps):
        # a limit that is over after the first step
        part = train("parts", resume=session > 0, callbacks=time_limit(1e-9))
        assert part.epochs_done == (session + 1) // steps
    assert part.is_finished
    assert_same_state(part.model.state_dict(), whole.model.state_dict())
    for first, second in zip(part.history, whole.history, strict=True):
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert (part.novelty is None) == (whole.novelty is None)
    if whole.novelty is not None:
        assert_same_state(part.novelty.state_dict(), whole.novelty.state_dict())
    other = train("other", replace(config, seed=1)).model.state_dict()
    assert any(
        not torch.equal(value, other[name]) for name, value in part.model.state_dict().items()
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_seed_decides_the_initial_weights_of_a_preset(case, tmp_path):
    task, config, _, _, data = case(tmp_path)
    data = task.load(config) if data is None else data
    with isolated_streams():
        first, again, other = (
            task.plan(replace(config, seed=seed), data).model for seed in (0, 0, 1)
        )
    assert_same_state(first.state_dict(), again.state_dict())
    assert differ(first, other)
