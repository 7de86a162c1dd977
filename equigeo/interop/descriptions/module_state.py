"""State of a converted module besides its map: weights, dtype, device, training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn.reached import allow_unreached
from equigeo.reps.irreps import Layout


@contextmanager
def building() -> Iterator[None]:
    """Build modules in float64, without the global generators, allowing outputs without paths."""
    # Libraries round their tables to the default dtype at construction; modules are cast later from
    # exact tables.
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.random.fork_rng(devices=[]), allow_unreached():
            yield
    finally:
        torch.set_default_dtype(dtype)


def copy_state(
    target: nn.Module,
    like: Tensor,  # tensor with the dtype and device
    training: bool,
    values: dict[str, Tensor],  # parameter values by name; empty ones are buffers and stay
) -> None:
    """Copy parameter values, dtype, device and training flags to a new module."""
    target.to(device=like.device, dtype=like.dtype)
    for name, value in values.items():
        if value.numel():
            parameter = nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
            setattr(target, name, parameter)
    target.train(training)


def is_e3nn(library: Any) -> bool:
    """Return whether a library is ``e3nn.o3``, which has its own irreps."""
    return hasattr(library, "Irreps")


def layout_option(library: Any, layout: Layout) -> dict[str, Layout]:
    """Return the layout as a keyword argument for constructors that support it."""
    return {} if is_e3nn(library) else {"layout": layout}
