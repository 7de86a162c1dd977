"""Conversion of arrays to tensors, and validation of arguments."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.ops.runtime.autocast import autocasts

TensorLike: TypeAlias = Tensor | NDArray[Any]
"""A tensor, or an array of NumPy that is copied into one."""

_LARGEST = np.iinfo(np.int64).max


def as_tensor(
    value: object,  # Tensor or ndarray
    name: str,  # of the argument, for messages
    *,
    like: Tensor | None = None,  # device and, for floating arrays, dtype of the result
) -> Tensor:
    """Return a tensor unchanged, or a NumPy array as a copied tensor."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, got {kind_of(value)}")
    found = torch.from_numpy(_native(np.asarray(value), name))
    if like is None:
        return found
    return found.to(like.device, like.dtype if found.is_floating_point() else None)


def _native(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Copy to native byte order and a dtype that torch supports."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "biufc":
        raise TypeError(f"{name} must hold numbers, got a NumPy array of {array.dtype}")
    if kind == "u" and size > 1:
        if array.size and int(array.max()) > _LARGEST:
            raise ValueError(f"{name} must fit into int64, got {int(array.max())}")
        return np.array(array, np.int64, order="C")
    if kind == "f" and size > 8:  # extended precision
        return np.array(array, np.float64, order="C")
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def as_indices(
    value: object,  # often int32 from SciPy
    name: str,  # of the argument, for messages
) -> Tensor:
    """Return an int64 tensor unchanged, or an integer NumPy array converted to int64."""
    found = as_tensor(value, name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        found = found.long()
    if found.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {found.dtype}")
    return found


def is_integer(x: Tensor) -> bool:
    """Return whether a tensor has an integer dtype: neither floating, complex nor bool."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def check_shape(
    x: Tensor,
    name: str,  # of the argument, for the message
    axes: tuple[int | str, ...],  # length of each axis, or a name for any length
) -> None:
    """Raise for a tensor of another shape."""
    fits = x.ndim == len(axes)
    if fits:
        fits = all([isinstance(a, str) or n == a for a, n in zip(axes, x.shape, strict=True)])
    if not fits:
        wanted = ", ".join(map(str, axes)) + ("," if len(axes) == 1 else "")
        raise ValueError(f"{name} must be ({wanted}), got {tuple(x.shape)}")


def check_like(
    x: Tensor,
    name: str,  # of the argument, for messages
    weight: Tensor,
) -> None:
    """Raise if dtype or device differ from those of a layer's weight, apart from autocast."""
    if x.device != weight.device:
        raise ValueError(f"{name} must be on {weight.device} as the weights are, got {x.device}")
    if x.dtype != weight.dtype and not (x.is_floating_point() and autocasts(x.device.type)):
        raise TypeError(f"{name} must be {weight.dtype} as the weights are, got {x.dtype}")


def kind_of(value: object) -> str:
    """Return the type name of an invalid argument, for messages."""
    return "None" if value is None else type(value).__name__
