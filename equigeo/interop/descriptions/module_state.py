"""What a converted module keeps besides its map: weights, dtype, device, training."""

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
    """Build a module in float64 without drawing from the global generators.

    Libraries round their tables to the default dtype when a module is built; what is built here is
    cast afterwards, from exact tables. Outputs that no path reaches are taken as they are: other
    libraries allow them.

    Yields
    ------
    None
        While the module is built.
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.random.fork_rng(devices=[]), allow_unreached():
            yield
    finally:
        torch.set_default_dtype(dtype)


def copy_state(target: nn.Module, like: Tensor, training: bool, values: dict[str, Tensor]) -> None:
    """Give a new module the tensors, dtype, device and training flags of another.

    Parameters
    ----------
    target : Module
        Changed in place.
    like : Tensor
        Of the wanted dtype and device.
    training : bool
        Flag of the other module.
    values : dict of str to Tensor
        Values of parameters, by name. Empty ones are buffers and stay.
    """
    target.to(device=like.device, dtype=like.dtype)
    for name, value in values.items():
        if value.numel():
            parameter = nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
            setattr(target, name, parameter)
    target.train(training)


def is_e3nn(library: Any) -> bool:
    """Tell ``e3nn.o3``, which has its own irreps, from this library."""
    return hasattr(library, "Irreps")


def layout_option(library: Any, layout: Layout) -> dict[str, Layout]:
    """Say the layout to a constructor that knows more than one.

    Parameters
    ----------
    library : module
        ``e3nn.o3``, which has one layout, or this library.
    layout : {"mul_ir", "ir_mul"}
        Of the module to build.

    Returns
    -------
    dict
        Keyword arguments.
    """
    return {} if is_e3nn(library) else {"layout": layout}
