"""Digits: centred ones to train on, transformed ones to evaluate on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.datasets import AffNIST, centred, load_digits
from equigeo.nn.brief import brief_fields
from equigeo.tasks.affnist.config import ImageConfig
from equigeo.training.labelled_source import LabelledSource, digest


def image_inputs(images: Tensor) -> Tensor:
    """Scale grey values to [0, 1] and give them a channel.

    The background stays 0, so that padding by zeros is background.

    Parameters
    ----------
    images : Tensor, (images, height, width), uint8
        Grey values.

    Returns
    -------
    Tensor, (images, 1, height, width), float32
        Model inputs.

    Examples
    --------
    >>> image_inputs(torch.full((2, 3, 3), 255, dtype=torch.uint8)).unique()
    tensor([1.])
    """
    # in place: `float` has made a copy already
    return images.float().div_(255).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class LabelledImages(LabelledSource):
    """One image and one label per sample; images become numbers a batch at a time.

    Parameters
    ----------
    images : Tensor, (images, height, width), uint8
        Grey values, on the CPU.
    labels : Tensor, (images,), int64
        Class index of every image.
    """

    images: Tensor
    labels: Tensor

    __repr__ = brief_fields

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Unite some images; nothing is added to them."""
        return image_inputs(self.images[chosen])

    def digests(self) -> Tensor:
        """Return digests of the images and of their labels."""
        found = torch.tensor([digest(image) for image in self.images])
        return torch.stack([found, self.labels], dim=1)


@dataclass(frozen=True, eq=False)
class Digits:
    """What a run trains on and is evaluated on.

    Parameters
    ----------
    train : LabelledImages
        Centred digits.
    evaluated : AffNIST
        Digits with their transformations.
    """

    train: LabelledImages
    evaluated: AffNIST

    __repr__ = brief_fields

    @classmethod
    def load(cls, config: ImageConfig) -> Digits:
        """Load what a configuration names; with ``holdout``, the test digits are not opened.

        Raises
        ------
        ValueError
            If the files are missing or damaged, or there are not so many digits.
        """
        images, labels = load_digits(config.data, "train")
        number = config.digits or len(images)
        if number > len(images):
            raise ValueError(
                f"{config.data}: has {len(images)} training digits, not {number}; "
                "ask for fewer with --digits"
            )
        split = config.evaluated_split
        evaluated = AffNIST(*load_digits(config.data, split), split)
        return cls(LabelledImages(centred(images[:number]), labels[:number]), evaluated)
