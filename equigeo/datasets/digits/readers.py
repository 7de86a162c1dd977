"""The three parts of MNIST on which affNIST is built."""

from __future__ import annotations

import gzip
import math
import struct
import warnings
import zlib
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

import numpy as np
import torch
from torch import Tensor

MAX_BYTES = 1 << 30
_UNSIGNED_BYTE = 0x08
_GZIP = b"\x1f\x8b"
NUM_CLASSES: Final = 10
SIDE: Final = 28
_PREFIX = {"train": "train", "test": "t10k"}
_LAYOUT = (
    "expected a folder with the four files of MNIST: train-images-idx3-ubyte, "
    "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, "
    "with or without .gz"
)
SPLITS: Final = ("train", "validation", "test")
IMAGE_FORMATS: Final = {
    ".bmp": "BMP", ".jpeg": "JPEG", ".jpg": "JPEG", ".pgm": "PPM", ".png": "PNG",
}  # fmt: skip
"""Endings of the files that are read, in lower case, and what Pillow calls their format."""
_MAX_BYTES: Final = 1 << 28
_MAX_PIXELS: Final = 1 << 25
_DEEP: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # modes with 16 bits


def read_idx(path: Path) -> Tensor:
    """Read an array of unsigned bytes from an IDX file, compressed by gzip or not."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            return _read(cast("IO[bytes]", gzip.open(file)) if is_packed else file)
    except (ValueError, EOFError, zlib.error, OSError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ValueError(f"{path}: cannot be read as an IDX file: {what}") from error


def _read(stream: IO[bytes]) -> Tensor:
    shape = _header(stream)
    size = math.prod(shape)
    if size > MAX_BYTES:
        raise ValueError(f"it announces {size} bytes, more than {MAX_BYTES}")
    data = stream.read(size)
    if len(data) != size:
        raise ValueError(f"it announces {size} bytes of data and holds {len(data)}")
    if stream.read(1):
        raise ValueError(f"it goes on after the {size} bytes of data that it announces")
    # a copy, because the bytes object may not be written to
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).reshape(shape).copy())


def _header(stream: IO[bytes]) -> tuple[int, ...]:
    """Read the magic number and the dimensions."""
    magic = stream.read(4)
    if len(magic) != 4 or magic[:2] != b"\0\0" or magic[3] == 0:
        raise ValueError(f"it starts with {magic.hex() or 'nothing'}, not with an IDX header")
    if magic[2] != _UNSIGNED_BYTE:
        raise ValueError(f"its values must be unsigned bytes (type 08), got type {magic[2]:02x}")
    dims = stream.read(4 * magic[3])
    if len(dims) != 4 * magic[3]:
        raise ValueError("its header is truncated")
    return struct.unpack(f">{magic[3]}I", dims)


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
        Gray values, 0 for background; rows from top to bottom.
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


def read_image(path: Path) -> Tensor:
    """Read the brightness of an image, rotated by its EXIF orientation.

    Transparent pixels are composited over white, or over black if all pixels are white then.

    Parameters
    ----------
    path : Path
        A ``.bmp``, ``.jpg``, ``.jpeg``, ``.pgm`` or ``.png`` file, read with Pillow.

    Returns
    -------
    Tensor, (height, width), uint8
        0 is black.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    ValueError
        If the file is unusable, or all pixels are equal. The message does not name the file.

    Examples
    --------
    >>> read_image(Path("digit.gif"))
    Traceback (most recent call last):
        ...
    ValueError: has the extension '.gif'; expected .bmp, .jpeg, .jpg, .pgm, .png
    """
    kind = IMAGE_FORMATS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(IMAGE_FORMATS)
        raise ValueError(f"has the extension {path.suffix!r}; expected {known}")
    if not path.is_file():
        raise ValueError("is no regular file" if path.exists() else "does not exist")
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"has more than {_MAX_BYTES} bytes")
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need Pillow: pip install 'pillow>=10.1'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns of is an error here, or harmless
            with Image.open(path, formats=[kind]) as image:
                width, height = image.size  # known before anything is unpacked
                grey = _grey(image) if width * height <= _MAX_PIXELS else None
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # what a decoder raises is anything
        text = " ".join(str(error).split())[:200].replace(str(path), path.name)
        raise ValueError(f"is no image ({text})") from error
    if grey is None:
        raise ValueError(f"has {width} x {height} pixels, more than {_MAX_PIXELS}")
    if grey.min() == grey.max():
        raise ValueError("shows nothing: all of its pixels are equal")
    return torch.from_numpy(grey)


def _grey(image: Any) -> Any:
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in _DEEP:
        deep = np.asarray(image, dtype=np.int64).clip(0, 65535)
        return np.asarray(deep // 257, dtype=np.uint8)
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        for ground in ("white", "black"):
            image = Image.alpha_composite(Image.new("RGBA", seen.size, ground), seen)
            grey = np.array(image.convert("L"))
            if grey.min() < grey.max():  # white strokes vanish before white
                break
    return np.array(image.convert("L"))
