"""Training of a classifier of point clouds, from files to checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from equigeo.datasets import PointClouds
from equigeo.mds import InvariantPointNet
from equigeo.training.classify import classify
from equigeo.training.cloud_copies import cloud_copies
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.fit_plan import FitPlan
from equigeo.training.points.labelled_clouds import LabelledClouds
from equigeo.training.points.point_config import PointConfig
from equigeo.training.points.point_models import POINT_MODELS
from equigeo.training.points.point_parts import point_parts
from equigeo.training.points.trained_point_classifier import TrainedPointClassifier
from equigeo.training.points.upright_cross_entropy import UprightCrossEntropy
from equigeo.training.random_state import enter_stream
from equigeo.training.relative_change import relative_change
from equigeo.training.train_model import train_model

_AT_ONCE = 32


def train_point_classifier(
    config: PointConfig,
    output: Path,
    *,
    model: nn.Module | None = None,
    **run: Any,
) -> TrainedPointClassifier:
    """Train on upright clouds and write ``config.json``, ``history.json`` and ``model.ckpt``.

    The history has the accuracy on upright and on rotated clouds, and the change of logits that a
    rotation makes.

    Parameters
    ----------
    config : PointConfig
        What to do.
    output : Path
        Folder of the run.
    model : torch.nn.Module, optional
        Train this one instead of the preset; of the configuration's family.
    **run
        As of :func:`equigeo.training.train_model`, which also says what may go wrong.

    Returns
    -------
    TrainedPointClassifier
        Read back from the checkpoint.
    """
    return train_model(TrainedPointClassifier, config, output, partial(_plan, config, model), **run)


def _plan(config: PointConfig, model: nn.Module | None) -> FitPlan:
    train, test = point_parts(config)
    if model is None:
        enter_stream(config.seed, "model")
        model = POINT_MODELS[config.model].preset(config.preset, num_classes=train.num_classes)
    source = LabelledClouds(train.points, train.labels, config.points, config.recipe.jitter)
    paired = isinstance(model, InvariantPointNet) and model.config.upright
    kind = UprightCrossEntropy if paired else CrossEntropy
    objective = kind.of(config.recipe, train.labels, train.num_classes)
    return FitPlan(config, model, train.classes, source, objective, partial(_evaluate, test))


def _evaluate(test: PointClouds, model: nn.Module) -> dict[str, float]:
    upright = classify(model, test.points.split(_AT_ONCE))
    rotated = classify(model, cloud_copies(test.points, "rotated").split(_AT_ONCE))
    return {
        "test_accuracy": (upright.argmax(dim=1) == test.labels).double().mean().item(),
        "rotated_accuracy": (rotated.argmax(dim=1) == test.labels).double().mean().item(),
        "logit_change": relative_change(upright, rotated),
    }
