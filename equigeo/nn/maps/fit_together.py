"""Fast check of operands."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

_PLAIN = (Tensor, Parameter)


def fit_together(
    values: Sequence[Tensor | None],  # (..., dim) with equal leading axes, or (dim,)
    dims: Sequence[int],  # expected last axes
) -> bool:
    """Return True if features match without broadcasting; fast, and False requires a full check."""
    x = values[0]
    # Tracers would turn equal sizes into constants: they are compiling or use tensor subclasses.
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
