"""Reader for a single image."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

IMAGE_FORMATS: Final = {
    ".bmp": "BMP", ".jpeg": "JPEG", ".jpg": "JPEG", ".pgm": "PPM", ".png": "PNG",
}  # fmt: skip
"""Endings of the files that are read, in lower case, and what Pillow calls their format."""

_MAX_BYTES: Final = 1 << 28
_MAX_PIXELS: Final = 1 << 25
_DEEP: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # modes with 16 bits


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
