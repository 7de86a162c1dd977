"""Fit of a run on point clouds."""

from __future__ import annotations

from functools import partial

from torch import nn

from equigeo.datasets import PointClouds
from equigeo.mds import InvariantPointNet
from equigeo.tasks.measures.classification import accuracy, classify
from equigeo.tasks.measures.cloud_copies import cloud_copies
from equigeo.tasks.measures.relative_change import relative_change
from equigeo.tasks.pointcloud.config import PointConfig
from equigeo.tasks.pointcloud.data import LabelledClouds
from equigeo.tasks.pointcloud.models import POINT_MODELS
from equigeo.tasks.pointcloud.objective import UprightCrossEntropy
from equigeo.tasks.pointcloud.trained import BATCH_SIZE
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream


def plan_fit(
    config: PointConfig,
    clouds: tuple[PointClouds, PointClouds],  # training, evaluation
    model: nn.Module | None = None,  # trained instead of the preset's
) -> FitPlan:
    """Build model and fit; the history has accuracy on upright and rotated clouds."""
    train, test = clouds
    if model is None:
        enter_stream(config.seed, "model")
        model = POINT_MODELS[config.model].preset(config.preset, num_classes=train.num_classes)
    source = LabelledClouds(train.points, train.labels, config.points, config.recipe.jitter)
    paired = isinstance(model, InvariantPointNet) and model.config.upright
    classes = CrossEntropy.of(config.recipe, train.labels, train.num_classes)
    objective = UprightCrossEntropy(classes) if paired else classes
    return FitPlan(config, model, train.classes, source, objective, partial(_evaluate, test))


def _evaluate(test: PointClouds, model: nn.Module) -> dict[str, float]:
    upright = classify(model, test.points.split(BATCH_SIZE))
    rotated = classify(model, cloud_copies(test.points, "rotated").split(BATCH_SIZE))
    return {
        "test_accuracy": accuracy(upright, test.labels),
        "rotated_accuracy": accuracy(rotated, test.labels),
        "logit_change": relative_change(upright, rotated),
    }
