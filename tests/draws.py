"""Random numbers that are the same in every run, and modules in another precision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=dtype)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# Makes new modules double, those of e3nn with their tables.
double_precision = partial(default_dtype, torch.float64)


def in_double(build: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with double_precision():
        return build(*args, **kwargs)
