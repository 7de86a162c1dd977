"""Reader of IDX files, the format in which MNIST is published."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
import torch
from torch import Tensor

MAX_BYTES = 1 << 30

_UNSIGNED_BYTE = 0x08
_GZIP = b"\x1f\x8b"


def read_idx(path: Path) -> Tensor:
    """Read an array of unsigned bytes from an IDX file, compressed by gzip or not."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP
            file.seek(0)
            if not compressed:
                return _read(file)
            with gzip.open(file) as stream:
                return _read(cast("IO[bytes]", stream))
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
