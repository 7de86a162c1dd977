"""Training of an image classifier on centred digits, from MNIST to checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.fit_plan import FitPlan
from equigeo.training.images.confuse_images import confuse_images
from equigeo.training.images.image_config import ImageConfig
from equigeo.training.images.image_models import IMAGE_MODELS
from equigeo.training.images.labelled_images import LabelledImages
from equigeo.training.images.logit_change import logit_change
from equigeo.training.images.trained_image_classifier import TrainedImageClassifier
from equigeo.training.random_state import enter_stream
from equigeo.training.train_model import train_model

DIGITS = tuple("0123456789")

_AT_ONCE = 1000


def train_image_classifier(
    config: ImageConfig,
    output: Path,
    *,
    model: nn.Module | None = None,
    **run: Any,
) -> TrainedImageClassifier:
    """Train on centred digits and write ``config.json``, ``history.json`` and ``model.ckpt``.

    No training digit is transformed; the history has accuracy and change of logits on transformed
    ones.

    Parameters
    ----------
    config : ImageConfig
        What to do.
    output : Path
        Folder of the run.
    model : torch.nn.Module, optional
        Train this one instead of the preset; of the preset's class, with ten classes.
    **run
        As of :func:`equigeo.training.train_model`, which also says what may go wrong.

    Returns
    -------
    TrainedImageClassifier
        Read back from the checkpoint.
    """
    return train_model(TrainedImageClassifier, config, output, partial(_plan, config, model), **run)


def _plan(config: ImageConfig, model: nn.Module | None) -> FitPlan:
    if model is None:
        enter_stream(config.seed, "model")
        model = IMAGE_MODELS[config.preset].preset(config.preset, num_classes=len(DIGITS))
    images, labels = load_digits(config.data, "train")
    number = config.digits or len(images)
    if number > len(images):
        raise ValueError(
            f"{config.data}: has {len(images)} training digits, not {number}; "
            "ask for fewer with --digits"
        )
    train = LabelledImages(centred(images[:number]), labels[:number])
    split = config.evaluated_split
    test = AffNIST(*load_digits(config.data, split), split)
    evaluate = partial(_evaluate, test, test.spread(config.test_images))
    objective = CrossEntropy.of(config.recipe, train.labels, len(DIGITS))
    return FitPlan(config, model, DIGITS, train, objective, evaluate)


def _evaluate(data: AffNIST, positions: Tensor, model: nn.Module) -> dict[str, float]:
    batches = (data.batch(part) for part in positions.split(_AT_ONCE))
    confusion = confuse_images(model, batches, len(DIGITS))
    return {
        "test_accuracy": float(confusion.diagonal().sum()) / len(positions),
        "logit_change": logit_change(model, data),
    }
