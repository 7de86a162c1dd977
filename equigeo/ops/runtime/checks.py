"""Checks that the public ops share; none of them reads a value, so none waits for a device."""

from __future__ import annotations

import torch
from torch import Tensor


def check_features(name: str, x: Tensor, axes: tuple[str, ...], *, bfloat16: bool = False) -> None:
    """Refuse a tensor of another dtype than float32 and float64 or without one of the named axes.

    Parameters
    ----------
    name : str
        Argument to name in the message.
    x : Tensor
        The argument.
    axes : tuple of str
        Names of the axes that it must have.
    bfloat16 : bool
        Whether the op takes that too.

    Raises
    ------
    TypeError
        If the dtype is another.
    ValueError
        If the number of axes is another.
    """
    if x.dtype not in (torch.float32, torch.float64) and not (
        bfloat16 and x.dtype == torch.bfloat16
    ):
        others = ", bfloat16" if bfloat16 else ""
        raise TypeError(f"{name} must be float32 or float64{others}, got {x.dtype}")
    if x.ndim != len(axes):
        raise ValueError(f"{name} must be ({', '.join(axes)}), got shape {tuple(x.shape)}")


def check_index(
    name: str, index: Tensor, *, length: tuple[int, str] | None = None, at_least: int = 0
) -> None:
    """Refuse an index that is not an int64 vector of the right length.

    Parameters
    ----------
    name : str
        Argument to name in the message.
    index : Tensor
        The argument.
    length : (int, str), optional
        The length it must have, and what says so.
    at_least : int
        Smallest length.

    Raises
    ------
    TypeError
        If the dtype is another.
    ValueError
        If it is not a vector or its length is wrong.
    """
    if index.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {index.dtype}")
    if index.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {tuple(index.shape)}")
    if length is not None and index.shape[0] != length[0]:
        raise ValueError(
            f"{name} must have {length[0]} entries to fit {length[1]}, got {index.shape[0]}"
        )
    if index.shape[0] < at_least:
        raise ValueError(f"{name} must have at least {at_least} entry, got {index.shape[0]}")


def check_device(**tensors: Tensor) -> None:
    """Refuse tensors that are not all on the device of the first.

    Parameters
    ----------
    **tensors : Tensor
        The arguments by name.

    Raises
    ------
    ValueError
        If one is elsewhere.
    """
    devices = [tensor.device for tensor in tensors.values()]
    if devices.count(devices[0]) == len(devices):
        return
    first, *rest = zip(tensors, devices, strict=True)
    name, device = next((name, device) for name, device in rest if device != devices[0])
    raise ValueError(f"{name} must be on the device of {first[0]}, {first[1]}, got {device}")
