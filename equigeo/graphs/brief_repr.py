"""Representation of dataclasses of tensors and arrays by shapes instead of numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor


def brief_repr(value: Any) -> str:
    """Return a one-line representation of a dataclass with shapes, without fields that are None."""
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
