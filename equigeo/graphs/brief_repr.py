"""What dataclasses of tensors and arrays show of themselves: shapes, and not thousands of numbers.

On its own because families use it that may not import one another.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor


def brief_repr(value: Any) -> str:
    """Show a dataclass by its fields, those of numbers as their shapes.

    Parameters
    ----------
    value : dataclass
        Declared with ``repr=False`` and ``__repr__ = brief_repr``.

    Returns
    -------
    str
        One line; fields that are None are left out.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch
    >>> @dataclass(repr=False)
    ... class Pair:
    ...     values: Tensor
    ...     name: str
    ...     __repr__ = brief_repr
    >>> Pair(torch.zeros(1000, 3), "zeros")
    Pair(values=(1000, 3) float32, name='zeros')
    """
    shown = (
        f"{field.name}={_brief(part)}"
        for field in fields(value)
        if (part := getattr(value, field.name)) is not None
    )
    return f"{type(value).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return repr(value)
