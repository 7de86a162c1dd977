"""Small synthetic digits, and folders of files that look like MNIST."""

import gzip
import struct

import numpy as np
import torch


def synthetic_digits(number, seed=0):
    """Random ink in boxes of at most 20 x 20, somewhere in the middle; labels in turn."""
    rng = np.random.default_rng(seed)
    images = np.zeros((number, 28, 28), np.uint8)
    for image in images:
        high, wide = rng.integers(6, 21, 2)
        top, left = (28 - high) // 2 + rng.integers(-2, 3), (28 - wide) // 2 + rng.integers(-2, 3)
        ink = rng.integers(0, 256, (high, wide)) * (rng.random((high, wide)) < 0.6)
        ink[high // 2, wide // 2] = 255
        image[top : top + high, left : left + wide] = ink
    return torch.from_numpy(images), torch.arange(number) % 10


def write_idx(path, array, compress=False):
    array = np.asarray(array, np.uint8)
    data = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


def write_mnist(folder, images, labels, prefix="train", compress=True):
    folder.mkdir(exist_ok=True, parents=True)
    end = ".gz" if compress else ""
    write_idx(folder / f"{prefix}-images-idx3-ubyte{end}", images, compress)
    write_idx(folder / f"{prefix}-labels-idx1-ubyte{end}", labels, compress)
    return folder
