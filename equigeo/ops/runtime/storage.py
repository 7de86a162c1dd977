"""Half precision, in which numbers are stored and never computed.

On its own because layers follow the same rule where they compute without an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

HALF = frozenset((torch.bfloat16, torch.float16))


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Tell in what features of a dtype are computed, and tables given.

    Parameters
    ----------
    dtype : torch.dtype
        In which features are stored.

    Returns
    -------
    torch.dtype
        float32 for half precision, otherwise the same.

    Examples
    --------
    >>> computed_in(torch.bfloat16), computed_in(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float32 if dtype in HALF else dtype


def in_float32(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Call a function on what is stored in half precision, and round its results once.

    The casts are PyTorch's own, so that derivatives of every kind pass through them: gradients
    arrive in the dtypes of the inputs, and are rounded once as well.

    Parameters
    ----------
    function : callable
        From tensors and other things to one tensor or a tuple of tensors.
    inputs : sequence
        What it takes; the first is a tensor of half precision.

    Returns
    -------
    Tensor or tuple of Tensor
        Those in float32 with the dtype of the first input, others as they are.

    Examples
    --------
    >>> third = torch.tensor(1 / 3, dtype=torch.bfloat16)
    >>> in_float32(lambda x: 3 * x - 1, [third]), 3 * third - 1
    (tensor(0.0020, dtype=torch.bfloat16), tensor(0., dtype=torch.bfloat16))
    """
    dtype = inputs[0].dtype

    def rounded(x: Tensor) -> Tensor:
        return x.to(dtype) if x.dtype == torch.float32 else x

    results = function(*(_wide(x) for x in inputs))
    return tuple(map(rounded, results)) if isinstance(results, tuple) else rounded(results)


def rounded_once(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Call a function in single precision where all its inputs are of one dtype of half precision.

    Parameters
    ----------
    function : callable
        As of :func:`in_float32`.
    inputs : sequence
        What it takes; the first is a tensor.

    Returns
    -------
    Tensor or tuple of Tensor
        Of the dtype of the inputs. Inputs of different dtypes are left to the function to refuse.

    Examples
    --------
    >>> x = torch.tensor([300.0], dtype=torch.float16)
    >>> rounded_once(lambda x: x * x / x, [x]), x * x / x
    (tensor([300.], dtype=torch.float16), tensor([inf], dtype=torch.float16))
    """
    given = {x.dtype for x in inputs if isinstance(x, Tensor) and x.is_floating_point()}
    is_half = len(given) == 1 and given <= HALF
    return in_float32(function, inputs) if is_half else function(*inputs)


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in HALF else x
