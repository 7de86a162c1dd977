"""The three parts of MNIST on which affNIST is built."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from torch import Tensor

from equigeo.datasets.digits.load_mnist import load_mnist

SPLITS: Final = ("train", "validation", "test")


def load_digits(
    folder: str | Path, split: Literal["train", "validation", "test"]
) -> tuple[Tensor, Tensor]:
    """Load the originals of one part of affNIST and homNIST.

    The first five sixths of MNIST's training digits are for training (50,000), the others for
    validation (10,000).

    Parameters
    ----------
    folder : path
        Holds the four files of MNIST, or of a data set in the same format, with or without ``.gz``.
    split : {"train", "validation", "test"}

    Returns
    -------
    images : Tensor, (digits, 28, 28), uint8
        Grey values, 0 for background; rows from top to bottom.
    labels : Tensor, (digits,), int64

    References
    ----------
    LeCun et al., "Gradient-based learning applied to document recognition", 1998.

    Examples
    --------
    >>> load_digits("nowhere", "dev")
    Traceback (most recent call last):
        ...
    ValueError: split must be one of train, validation, test, got 'dev'
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    images, labels = load_mnist(folder, "test" if split == "test" else "train")
    if split == "test":
        return images, labels
    held = len(images) // 6
    part = slice(None, len(images) - held) if split == "train" else slice(len(images) - held, None)
    return images[part], labels[part]
