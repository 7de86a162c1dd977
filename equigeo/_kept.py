"""Functions whose tensors are kept for a process, whatever the first caller was doing."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, cache, wraps
from typing import Any, TypeVar

from torch.compiler import is_dynamo_compiling

from equigeo.ops.runtime.torch_internals import plain_tensors

__all__ = ["kept", "plain_tensors"]

T = TypeVar("T")


def kept(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """Evaluate a function once for the same arguments, to plain tensors on the CPU.

    The first call may come in inference mode, of which tensors have no gradients, under
    ``torch.device("meta")`` or among fake tensors, which have no values, or inside of a transform
    of :mod:`torch.func`, which its tensors do not outlive. None of these is at work in the
    function.

    Parameters
    ----------
    function : callable
        Of arguments that can be hashed.

    Returns
    -------
    callable
        As of :func:`functools.cache`.

    Examples
    --------
    >>> import torch
    >>> @kept
    ... def ones(n):
    ...     return torch.ones(n)
    >>> with torch.device("meta"):
    ...     ones(2)
    tensor([1., 1.])
    """

    @wraps(function)
    def alone(*arguments: Any, **named: Any) -> T:
        if is_dynamo_compiling():  # which keeps nothing, and takes what it reads into its graph
            return function(*arguments, **named)
        with plain_tensors():
            return function(*arguments, **named)

    return cache(alone)
