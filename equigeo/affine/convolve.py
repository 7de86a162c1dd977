"""Spatial cross-correlation of features on a group with kernels that couple samples."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo._core.checks import checked_integer, kind_of

PaddingMode = Literal["zeros", "circular"]
_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def convolve(
    x: Tensor,  # (B, C, *S)
    kernel: Tensor,  # (C_out, C / groups, *k), cast to the dtype of x
    *,
    padding: int = 0,
    padding_mode: PaddingMode = "zeros",
    stride: int = 1,
    groups: int = 1,
) -> Tensor:  # (B, C_out, *S_out)
    """Cross-correlate in any number of dimensions, in channels-last memory format."""
    n = x.ndim - 2
    # A channels-last kernel gives a channels-last result, which the next layer packs as a view.
    kernel = kernel.to(x.dtype)
    if n in _CHANNELS_LAST:
        kernel = kernel.contiguous(memory_format=_CHANNELS_LAST[n])
    if padding and padding_mode == "circular":
        x = F.pad(x, [padding] * (2 * n), mode="circular")
        padding = 0
    return _CONVOLUTIONS[n](x, kernel, stride=stride, padding=padding, groups=groups)


def pack(x: Tensor) -> Tensor:  # a view of results of unpack
    """Merge samples and channels, samples slowest: ``(B, C, N, *S)`` to ``(B, N C, *S)``."""
    return x.transpose(1, 2).flatten(1, 2)


def unpack(
    x: Tensor,  # (B, N C, *S)
    samples: int,  # N
) -> Tensor:  # (B, C, N, *S), a view
    """Apply the inverse of :func:`pack`."""
    return x.unflatten(1, (samples, -1)).transpose(1, 2)


def check_options(
    channels: tuple[int, int],  # of input and output
    padding: int,  # cells on every side
    padding_mode: str,
    stride: int = 1,
) -> None:
    """Validate the options of a convolution."""
    if min(channels) < 1:
        raise ValueError(f"channels must be positive, got {channels[0]} and {channels[1]}")
    checked_integer("padding", padding, 0)
    checked_integer("stride", stride, 1)
    if padding_mode not in ("zeros", "circular"):
        raise ValueError(f'padding_mode must be "zeros" or "circular", got {padding_mode!r}')


def check_features(
    x: object,
    channels: int,  # expected channels
    n: int,  # number of spatial axes
    samples: int | None,  # number of samples; None for features on space
) -> None:
    """Validate the shape and dtype of features ``(B, C, N, *S)``, or ``(B, C, *S)``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
    lead = [channels] if samples is None else [channels, samples]
    if x.ndim != 1 + len(lead) + n or list(x.shape[1 : 1 + len(lead)]) != lead:
        names = ["batch", *map(str, lead), *["size"] * n]
        raise ValueError(f"features must be ({', '.join(names)}), got {tuple(x.shape)}")
    # Kernels are cast to the dtype of features; integers would truncate them to zero.
    if not x.is_floating_point():
        raise TypeError(f"features must be floating, got {x.dtype}")
