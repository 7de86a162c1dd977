"""Fit of a run on digits."""

from __future__ import annotations

from functools import partial
from typing import Final

from torch import Tensor, nn

from equigeo.datasets import AffNIST
from equigeo.tasks.affnist.config import ImageConfig
from equigeo.tasks.affnist.data import Digits
from equigeo.tasks.affnist.logits import IMAGES_AT_ONCE, image_confusion, logit_change
from equigeo.tasks.affnist.models import IMAGE_MODELS
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.random_state import enter_stream

DIGITS: Final = tuple("0123456789")


def plan_fit(
    config: ImageConfig,
    digits: Digits,
    model: nn.Module | None = None,  # trained instead of the preset's, with ten classes
) -> FitPlan:
    """Build model and fit; the history has accuracy and logit change on transformed digits."""
    if model is None:
        enter_stream(config.seed, "model")
        model = IMAGE_MODELS[config.preset].preset(config.preset, num_classes=len(DIGITS))
    # spread over digits and transformations, and the same after every epoch
    evaluate = partial(_evaluate, digits.evaluated, digits.evaluated.spread(config.test_images))
    objective = CrossEntropy.of(config.recipe, digits.train.labels, len(DIGITS))
    return FitPlan(config, model, DIGITS, digits.train, objective, evaluate)


def _evaluate(data: AffNIST, positions: Tensor, model: nn.Module) -> dict[str, float]:
    batches = (data.batch(part) for part in positions.split(IMAGES_AT_ONCE))
    confusion = image_confusion(model, batches, len(DIGITS))
    return {
        "test_accuracy": float(confusion.diagonal().sum()) / len(positions),
        "logit_change": logit_change(model, data),
    }
