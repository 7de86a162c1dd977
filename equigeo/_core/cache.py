"""Process-wide cache for functions that return tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, cache, wraps
from typing import Any, TypeVar

from torch.compiler import is_dynamo_compiling

from equigeo._core.tensors import plain_tensors

T = TypeVar("T")


def kept(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """Cache a function of hashable arguments that returns plain CPU tensors."""

    @wraps(function)
    def alone(*arguments: Any, **named: Any) -> T:
        if is_dynamo_compiling():  # which keeps nothing, and takes what it reads into its graph
            return function(*arguments, **named)
        # The first call may be inside inference mode, a device context, fake tensors or a transform
        # of torch.func.
        with plain_tensors():
            return function(*arguments, **named)

    return cache(alone)
