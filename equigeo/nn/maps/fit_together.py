"""The check that nearly all inputs of layers pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

_PLAIN = (Tensor, Parameter)


def fit_together(values: Sequence[Tensor | None], dims: Sequence[int]) -> bool:
    """Tell whether features fit without broadcasting, as they nearly always do, in little time.

    Parameters
    ----------
    values : sequence of Tensor or None, (..., dim)
        Features with the same leading axes, or without any but the last.
    dims : sequence of int
        Last axes; that of a missing value does not count.

    Returns
    -------
    bool
        False says nothing: errors are for slower checks to find.
    """
    x = values[0]
    # What records a program would take the sizes of equal shapes for constants: a compiler says so,
    # and the tensors of the others are of classes of theirs.
    if torch.compiler.is_compiling() or not isinstance(x, Tensor) or type(x) not in _PLAIN:
        return False
    if not x.is_floating_point():
        return False
    batch, dtype, device = x.shape[:-1], x.dtype, x.device
    for value, dim in zip(values, dims, strict=True):
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.dtype != dtype or value.device != device:
            return False
        shape = value.shape
        if shape != (*batch, dim) and (shape != (dim,) or value is x):
            return False
    return True
