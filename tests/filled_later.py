"""Modules that lose their memory and are filled again, by what they save alone."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


@contextmanager
def memory_of_others() -> Iterator[None]:
    """Memory that nobody has written to holds NaN, and the largest integers."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def filled_later(module: Module, through: str = "meta") -> Module:
    """Make a copy by way of a device and ``to_empty()``, and load the state of the original."""
    with memory_of_others():
        other = copy.deepcopy(module).to(through).to_empty(device="cpu")
    other.load_state_dict(module.state_dict())
    return other
