"""Checks that the public ops share; none of them reads a value, so none waits for a device."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.runtime.storage import HALF, computed_in

FEATURES = frozenset((torch.float32, torch.float64, *HALF))


def check_tensor(name: str, value: object) -> None:
    """Refuse what is no tensor.

    Parameters
    ----------
    name : str
        Argument to name in the message.
    value : Tensor
        The argument.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a Tensor, got {type(value).__name__}")


def check_features(name: str, x: Tensor, axes: tuple[str, ...]) -> None:
    """Refuse a tensor of a dtype that no op takes, or without one of the named axes.

    Parameters
    ----------
    name : str
        Argument to name in the message.
    x : Tensor
        The argument.
    axes : tuple of str
        Names of the axes that it must have.

    Raises
    ------
    TypeError
        If the dtype is neither float32 nor float64, bfloat16 nor float16.
    ValueError
        If the number of axes is another.
    """
    if x.dtype not in FEATURES:
        raise TypeError(f"{name} must be float32 or float64, bfloat16 or float16, got {x.dtype}")
    if x.ndim != len(axes):
        raise ValueError(f"{name} must be ({', '.join(axes)}), got shape {tuple(x.shape)}")


def check_dtype(name: str, tensor: Tensor, like: str, features: Tensor) -> None:
    """Refuse a tensor of another dtype than features.

    Parameters
    ----------
    name, like : str
        Arguments to name in the message.
    tensor, features : Tensor
        The arguments.

    Raises
    ------
    TypeError
        If dtypes differ.
    """
    if tensor.dtype != features.dtype:
        raise TypeError(
            f"{name} must have the dtype of {like}, {features.dtype}, got {tensor.dtype}"
        )


def check_table(name: str, table: Tensor, x: Tensor) -> None:
    """Refuse a table of another dtype than that in which features are computed.

    Parameters
    ----------
    name : str
        Argument to name in the message.
    table : Tensor
        The argument.
    x : Tensor
        The features.

    Raises
    ------
    TypeError
        If it has another.
    """
    wanted = computed_in(x.dtype)
    if table.dtype != wanted:
        of = "of x" if wanted == x.dtype else f"in which {x.dtype} is computed"
        raise TypeError(f"{name} must have the dtype {of}, {wanted}, got {table.dtype}")


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


def check_row(dim: int) -> int:
    """Refuse a length of rows that kernels refuse, where a fake makes them.

    Beyond what a size can be PyTorch's own messages name places in its sources.

    Parameters
    ----------
    dim : int
        Components of a row.

    Returns
    -------
    int
        The same.

    Raises
    ------
    ValueError
        If it is negative or beyond 2^31 - 1.
    """
    if not 0 <= dim < 2**31:
        raise ValueError(f"the columns of the output must be from 0 to 2147483647, got {dim}")
    return dim


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
