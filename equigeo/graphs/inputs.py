"""Inputs of functions and layers: arrays as tensors, and one sentence about what does not fit.

Messages speak of the argument that the caller gave, by its name.
"""

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


def as_tensor(value: object, name: str, *, like: Tensor | None = None) -> Tensor:
    """Take a tensor as it is, and the numbers of a NumPy array.

    Parameters
    ----------
    value : Tensor or ndarray
        What the caller gave. Arrays are copied: later changes of theirs are not seen.
    name : str
        Of the argument, for messages.
    like : Tensor, optional
        Whose device an array goes to and, if it is floating, whose dtype it takes: arrays are
        float64 by habit, where a tensor's dtype was chosen.

    Returns
    -------
    Tensor
        Arrays of unsigned integers of more than 8 bits as int64, others of the same dtype.

    Raises
    ------
    TypeError
        If it is neither, or an array of no numbers.
    ValueError
        If an integer does not fit into int64.

    Examples
    --------
    >>> as_tensor(np.array([1, 2], np.uint32), "faces")
    tensor([1, 2])
    >>> as_tensor([1, 2], "faces")
    Traceback (most recent call last):
    TypeError: faces must be a Tensor or a NumPy array, got list
    """
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, got {kind_of(value)}")
    found = torch.from_numpy(_native(np.asarray(value), name))
    if like is None:
        return found
    return found.to(like.device, like.dtype if found.is_floating_point() else None)


def _native(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Copy into memory and a type that torch reads: its byte order, and no wide unsigned ints."""
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


def as_indices(value: object, name: str) -> Tensor:
    """Take int64 tensors as they are, and NumPy arrays of any integers.

    Parameters
    ----------
    value : Tensor, int64, or ndarray, integer
        Those of scipy are often int32.
    name : str
        Of the argument, for messages.

    Returns
    -------
    Tensor, int64
        The same numbers.

    Raises
    ------
    TypeError
        If it is neither.

    Examples
    --------
    >>> as_indices(np.array([1, 2], np.int32), "ptr")
    tensor([1, 2])
    """
    found = as_tensor(value, name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        found = found.long()
    if found.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {found.dtype}")
    return found


def is_integer(x: Tensor) -> bool:
    """Tell whether a tensor holds integers: neither floating, complex nor bool."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def check_shape(x: Tensor, name: str, axes: tuple[int | str, ...]) -> None:
    """Refuse a tensor of another shape.

    Parameters
    ----------
    x : Tensor
        What was given.
    name : str
        Of the argument, for the message.
    axes : tuple of int or str
        Length of each axis, or what it counts where any length will do.

    Raises
    ------
    ValueError
        Saying what was expected and what came.

    Examples
    --------
    >>> check_shape(torch.zeros(5, 30), "x", ("nodes", 31))
    Traceback (most recent call last):
    ValueError: x must be (nodes, 31), got (5, 30)
    """
    fits = x.ndim == len(axes)
    if fits:
        fits = all([isinstance(a, str) or n == a for a, n in zip(axes, x.shape, strict=True)])
    if not fits:
        wanted = ", ".join(map(str, axes)) + ("," if len(axes) == 1 else "")
        raise ValueError(f"{name} must be ({wanted}), got {tuple(x.shape)}")


def check_like(x: Tensor, name: str, weight: Tensor) -> None:
    """Refuse a tensor that cannot meet the weights of a layer.

    Parameters
    ----------
    x : Tensor
        What was given.
    name : str
        Of the argument, for messages.
    weight : Tensor
        A weight of the layer.

    Raises
    ------
    TypeError
        If dtypes differ, unless autocast makes them alike.
    ValueError
        If devices differ.

    Examples
    --------
    >>> check_like(torch.zeros(2).double(), "x", torch.zeros(2))
    Traceback (most recent call last):
    TypeError: x must be torch.float32 as the weights are, got torch.float64
    """
    if x.device != weight.device:
        raise ValueError(f"{name} must be on {weight.device} as the weights are, got {x.device}")
    if x.dtype != weight.dtype and not (x.is_floating_point() and autocasts(x.device.type)):
        raise TypeError(f"{name} must be {weight.dtype} as the weights are, got {x.dtype}")


def kind_of(value: object) -> str:
    """Name the type of something that does not fit, for messages."""
    return "None" if value is None else type(value).__name__
