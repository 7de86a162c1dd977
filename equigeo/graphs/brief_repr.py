"""What dataclasses of tensors and arrays show of themselves: shapes, and not thousands of numbers.

On its own because families use it that may not import one another.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor


class BriefRepr:
    """Base of dataclasses, declared with ``repr=False``, whose fields are long.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch
    >>> @dataclass(repr=False)
    ... class Pair(BriefRepr):
    ...     values: Tensor
    ...     name: str
    >>> Pair(torch.zeros(1000, 3), "zeros")
    Pair(values=(1000, 3) float32, name='zeros')
    """

    def __repr__(self) -> str:
        """Return the fields that are there, those of numbers as their shapes."""
        shown = (
            f"{field.name}={_brief(value)}"
            for field in fields(self)  # type: ignore[arg-type] # subclasses are dataclasses
            if (value := getattr(self, field.name)) is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return repr(value)
