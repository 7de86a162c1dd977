"""Digits: centred for training, transformed for evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import AffNIST, load_digits
from equigeo.datasets.digits.centred import centred
from equigeo.tasks.affnist.config import ImageConfig
from equigeo.training.labelled_source import LabelledSource, digest


def image_inputs(
    images: Tensor,  # (images, height, width) uint8, background 0
) -> Tensor:
    """Scale grey values to [0, 1] and add a channel axis, (images, 1, height, width) float32."""
    # in place: `float` has made a copy already
    return images.float().div_(255).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class LabelledImages(LabelledSource):
    """Source of labelled images, converted to floats per batch."""

    images: Tensor  # (images, height, width) uint8, on the CPU
    labels: Tensor  # (images,)

    __repr__ = brief_fields

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Join some images without noise."""
        return image_inputs(self.images[chosen])

    def digests(self) -> Tensor:
        """Return digests of the images and of their labels."""
        found = torch.tensor([digest(image) for image in self.images])
        return torch.stack([found, self.labels], dim=1)


@dataclass(frozen=True, eq=False)
class Digits:
    """Training and evaluation digits of a run.

    Examples
    --------
    >>> images, labels = torch.ones(2, 28, 28, dtype=torch.uint8), torch.tensor([0, 1])
    >>> train = LabelledImages(centred(images), labels)
    >>> len(Digits(train, AffNIST(images, labels, "test")).train)
    2
    """

    train: LabelledImages
    evaluated: AffNIST

    __repr__ = brief_fields

    @classmethod
    def load(cls, config: ImageConfig) -> Digits:
        """Load the digits of a configuration; with ``holdout``, the test digits are not read."""
        images, labels = load_digits(config.data, "train")
        number = config.digits or len(images)
        if number > len(images):
            raise ValueError(
                f"{config.data}: has {len(images)} training digits, not {number}; "
                "request fewer with --digits"
            )
        split = config.evaluated_split
        evaluated = AffNIST(*load_digits(config.data, split), split)
        return cls(LabelledImages(centred(images[:number]), labels[:number]), evaluated)
