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

    The training digits are the first 50,000 of MNIST's 60,000, the validation digits the last
    10,000, the test digits MNIST's own. Where the files hold another number of digits, the last
    sixth of the training file is for validation.

    Parameters
    ----------
    folder : path
        As for :func:`load_mnist`.
    split : {"train", "validation", "test"}
        The part.

    Returns
    -------
    images : Tensor, (digits, 28, 28), uint8
        Untransformed.
    labels : Tensor, (digits,), int64
        The digit, 0 to 9.

    Raises
    ------
    ValueError
        If the split is unknown, or as :func:`load_mnist`.

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
