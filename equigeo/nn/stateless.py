"""Modules that a ``state_dict`` does not see."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def stateless(module: M) -> M:
    """Keep the buffers of a module out of its ``state_dict``, where it has no parameters.

    For what is part of another module whose state must not show it.

    Parameters
    ----------
    module : Module
        Changed in place.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If there are parameters.

    Examples
    --------
    >>> stateless(nn.BatchNorm1d(2, affine=False)).state_dict()
    OrderedDict()
    """
    names = [name for name, _ in module.named_parameters()]
    if names:
        raise ValueError(f"{type(module).__name__} must have no parameters, has {names}")
    for part in module.modules():
        for name, buffer in list(part.named_buffers(recurse=False)):
            part.register_buffer(name, buffer, persistent=False)
    return module
