"""Argument checks of public ops; none reads a value, so none waits for a device."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.runtime.storage import HALF, computed_in

FEATURES = frozenset((torch.float32, torch.float64, *HALF))


def check_tensor(
    name: str,  # argument name in the message
    value: object,
) -> None:
    """Raise ``TypeError`` if a value is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a Tensor, got {type(value).__name__}")


def check_features(
    name: str,
    x: Tensor,
    axes: tuple[str, ...],  # names of the required axes
) -> None:
    """Raise if ops do not support the layout or dtype, or the number of axes is wrong."""
    _check_layout(name, x)
    if x.dtype not in FEATURES:
        raise TypeError(f"{name} must be float32 or float64, bfloat16 or float16, got {x.dtype}")
    if x.ndim != len(axes):
        raise ValueError(f"{name} must be ({', '.join(axes)}), got shape {tuple(x.shape)}")


def _check_layout(name: str, x: Tensor) -> None:
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be strided, got a tensor of layout {x.layout}")


def check_dtype(
    name: str,
    tensor: Tensor,
    like: str,  # argument name of the features
    features: Tensor,
) -> None:
    """Raise ``TypeError`` if a tensor does not have the dtype of the features."""
    if tensor.dtype != features.dtype:
        raise TypeError(
            f"{name} must have the dtype of {like}, {features.dtype}, got {tensor.dtype}"
        )


def check_table(
    name: str,
    table: Tensor,
    x: Tensor,  # the features
) -> None:
    """Raise ``TypeError`` if a table does not have the compute dtype of the features."""
    wanted = computed_in(x.dtype)
    if table.dtype != wanted:
        of = "of x" if wanted == x.dtype else f"in which {x.dtype} is computed"
        raise TypeError(f"{name} must have the dtype {of}, {wanted}, got {table.dtype}")


def check_index(
    name: str,
    index: Tensor,
    *,
    length: tuple[int, str] | None = None,  # required length and its origin, for the message
    at_least: int = 0,
) -> None:
    """Raise if an index is not an int64 vector of the required length."""
    _check_layout(name, index)
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


def check_edge_lists(
    name: str,  # of the features of the sources
    x: Tensor,  # (sources, ...)
    lists: dict[str, Tensor],  # (edges,), and the offsets ptr and back_ptr
    edges: tuple[int, str] | None = None,  # their number and its origin; that of the first list
) -> None:
    """Raise if lists of a graph do not fit its sources and edges; values are not read."""
    if edges is None:
        first, index = next(iter(lists.items()))
        check_index(first, index)
        edges = index.shape[0], first
    for key, index in lists.items():
        if key == "ptr":
            check_index(key, index, at_least=1)
        else:
            sources = x.shape[0] + 1, f"the rows of {name}, plus one"
            check_index(key, index, length=sources if key == "back_ptr" else edges)


def check_row(dim: int) -> int:
    """Raise ``ValueError`` if a row length is outside of [0, 2^31 - 1], else return it."""
    # Kernels reject these too, but for larger sizes PyTorch's messages refer to its own sources.
    if not 0 <= dim < 2**31:
        raise ValueError(f"the columns of the output must be from 0 to 2147483647, got {dim}")
    return dim


def check_device(**tensors: Tensor) -> None:
    """Raise ``ValueError`` if tensors are not all on the device of the first."""
    devices = [tensor.device for tensor in tensors.values()]
    if devices.count(devices[0]) == len(devices):
        return
    first, *rest = zip(tensors, devices, strict=True)
    name, device = next((name, device) for name, device in rest if device != devices[0])
    raise ValueError(f"{name} must be on the device of {first[0]}, {first[1]}, got {device}")
