"""Training of an image classifier on centred digits, from MNIST to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.training.confuse_images import confuse_images
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.fit_plan import FitPlan
from equigeo.training.image_config import ImageConfig
from equigeo.training.image_models import IMAGE_MODELS
from equigeo.training.labelled_images import LabelledImages
from equigeo.training.logit_change import logit_change
from equigeo.training.random_state import enter_stream
from equigeo.training.run_folder import RunFolder
from equigeo.training.train_run import train_run
from equigeo.training.trained_image_classifier import TrainedImageClassifier

if TYPE_CHECKING:
    from equigeo.training.lightning import L

DIGITS = tuple("0123456789")

_AT_ONCE = 1000


def train_image_classifier(
    config: ImageConfig,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    model: nn.Module | None = None,
    progress: bool = False,
    callbacks: Sequence[L.Callback] = (),
) -> TrainedImageClassifier:
    """Train on centred digits and write ``config.json``, ``history.json`` and ``model.ckpt``.

    No training digit is transformed; the history has accuracy and change of logits on transformed
    ones. Files, interruption and resuming are as in :func:`equigeo.training.train_classifier`.

    Parameters
    ----------
    config : ImageConfig
        What to do.
    output : Path
        Folder of the run.
    resume : bool
        Continue the run in ``output``, if there is one.
    overwrite : bool
        Replace the run in ``output``.
    model : torch.nn.Module, optional
        Train this one instead of the preset; of the preset's class, with ten classes.
    progress : bool
        Show progress on standard error.
    callbacks : sequence of Lightning callbacks
        Added to those of the run.

    Returns
    -------
    TrainedImageClassifier
        Read back from the checkpoint.

    Raises
    ------
    ValueError
        If the data are missing, damaged or too few.
    OutputFolderError
        If ``output`` is unwritable or holds another run.
    CheckpointError
        If the checkpoint to resume is unusable.
    ImportError
        If Lightning is not installed.
    KeyboardInterrupt
        If the user interrupts; the last checkpoint is in place.
    """
    folder = RunFolder(output, ImageConfig)
    train_run(
        folder,
        TrainedImageClassifier.task,
        config,
        partial(_prepare, config, model),
        resume=resume,
        overwrite=overwrite,
        progress=progress,
        callbacks=callbacks,
    )
    return TrainedImageClassifier.load(folder.checkpoint)


def _prepare(config: ImageConfig, model: nn.Module | None) -> FitPlan:
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
    objective = CrossEntropy(config.recipe.label_smoothing)
    return FitPlan(config, model, DIGITS, train, objective, evaluate)


def _evaluate(data: AffNIST, positions: Tensor, model: nn.Module) -> dict[str, float]:
    batches = (data.batch(part) for part in positions.split(_AT_ONCE))
    confusion = confuse_images(model, batches, len(DIGITS))
    return {
        "test_accuracy": float(confusion.diagonal().sum()) / len(positions),
        "logit_change": logit_change(model, data),
    }
