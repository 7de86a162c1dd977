"""The original MNIST files."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from torch import Tensor

from equigeo.datasets.digits.read_idx import read_idx

NUM_CLASSES: Final = 10
SIDE: Final = 28

_PREFIX = {"train": "train", "test": "t10k"}
_LAYOUT = (
    "expected a folder with the four files of MNIST: train-images-idx3-ubyte, "
    "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, "
    "with or without .gz"
)


def load_mnist(
    folder: str | Path, part: Literal["train", "test"] = "train"
) -> tuple[Tensor, Tensor]:
    """Load images (digits, 28, 28) uint8 and labels (digits,) of one part of MNIST."""
    if part not in _PREFIX:
        raise ValueError(f"part must be train or test, got {part!r}")
    folder = Path(folder)
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "no such folder"
        raise ValueError(f"{folder}: {what}; {_LAYOUT}")
    images_file = _find(folder, f"{_PREFIX[part]}-images-idx3-ubyte")
    labels_file = _find(folder, f"{_PREFIX[part]}-labels-idx1-ubyte")
    images, labels = read_idx(images_file), read_idx(labels_file).long()
    if images.ndim != 3 or images.shape[1:] != (SIDE, SIDE) or len(images) == 0:
        raise ValueError(
            f"{images_file}: must hold images of {SIDE} x {SIDE}, got {tuple(images.shape)}"
        )
    if labels.shape != (len(images),):
        raise ValueError(
            f"{labels_file}: must hold one label for each of the {len(images)} images, "
            f"got {tuple(labels.shape)}"
        )
    if int(labels.max()) >= NUM_CLASSES:
        raise ValueError(f"{labels_file}: labels must be 0 to 9, got {int(labels.max())}")
    return images, labels


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise ValueError(f"{folder}: has no {name}; {_LAYOUT}")
