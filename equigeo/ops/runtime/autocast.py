"""Behaviour of layers and ops under :class:`torch.autocast`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from equigeo.ops.runtime.storage import HALF
from equigeo.ops.runtime.torch_internals import autocast_active, parameters_replaced

F = TypeVar("F", bound=Callable[..., Any])


def computes_in_float32(function: F) -> F:
    """Decorate a function to run in float32 under autocast, casting half-precision inputs."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not autocast_active():
            return function(*args, **kwargs)
        tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
        # The rule of torch.amp.custom_fwd(cast_inputs=torch.float32): geometry needs the digits,
        # and the inputs of one layer otherwise arrive in two dtypes.
        device = next((x.device.type for x in tensors), "cpu")
        if not autocasts(device):
            return function(*args, **kwargs)
        with without_autocast(device), wide_parameters(args[0]):
            named = {name: _single(x) for name, x in kwargs.items()}
            return function(*map(_single, args), **named)

    return cast(F, wrapped)


def autocasts(
    device: str,  # type, such as "cuda"
) -> bool:
    """Return whether autocast is enabled for a device type; False for types without autocast."""
    # PyTorch 2.11 cannot trace torch.amp.is_autocast_available.
    return autocast_active() and device != "meta" and torch.is_autocast_enabled(device)


def without_autocast(
    device: str,  # type, such as "cuda"
) -> AbstractContextManager[None]:
    """Return a context that disables autocast, without overhead if it is inactive."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def wide_parameters(owner: Any) -> AbstractContextManager[Any]:
    """Temporarily use float32 parameters in a module that is stored in half precision."""
    if not isinstance(owner, nn.Module):
        return nullcontext()
    wide = {name: p.float() for name, p in owner.named_parameters() if p.dtype in HALF}
    return parameters_replaced(owner, wide) if wide else nullcontext()


def _single(x: Any) -> Any:
    if isinstance(x, Tensor) and x.dtype in HALF:
        return x.float()
    # sources and targets of edges
    return tuple(map(_single, x)) if type(x) in (tuple, list) else x
