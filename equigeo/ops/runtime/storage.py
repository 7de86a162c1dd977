"""Half precision as a storage format: computations run in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

HALF = frozenset((torch.bfloat16, torch.float16))


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the compute dtype of features: float32 for half precision, else unchanged."""
    return torch.float32 if dtype in HALF else dtype


def in_float32(
    function: Callable[..., Any],
    inputs: Sequence[Any],  # the first is a half-precision tensor
) -> Any:
    """Call a function on half-precision inputs cast to float32 and round its results once."""
    dtype = inputs[0].dtype

    def rounded(x: Tensor) -> Tensor:
        return x.to(dtype) if x.dtype == torch.float32 else x

    # Autograd passes through the casts: gradients have the dtypes of the inputs and are rounded
    # once.
    results = function(*(_wide(x) for x in inputs))
    return tuple(map(rounded, results)) if isinstance(results, tuple) else rounded(results)


def rounded_once(
    function: Callable[..., Any],
    inputs: Sequence[Any],  # the first is a tensor
) -> Any:
    """Call a function in float32 if all its floating inputs have one half-precision dtype."""
    given = {x.dtype for x in inputs if isinstance(x, Tensor) and x.is_floating_point()}
    is_half = len(given) == 1 and given <= HALF
    return in_float32(function, inputs) if is_half else function(*inputs)


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in HALF else x
