"""Weights that a layer owns or is given, and the checks of what they meet.

On its own because linear maps and products with weights have them alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.ops.runtime.checks import check_tensor
from equigeo.ops.runtime.torch_internals import autocast_active


def hold_weights(module: nn.Module, name: str, value: Tensor, *, internal: bool) -> None:
    """Register weights as a parameter, or an empty buffer in their place.

    Parameters
    ----------
    module : nn.Module
        Whose they are.
    name : str
        Of the attribute.
    value : Tensor, (numel,)
        First values.
    internal : bool
        Whether the module owns them.
    """
    # As in e3nn there is always something under this name, or a state_dict would not load.
    if internal and len(value):
        module.register_parameter(name, nn.Parameter(value))
    else:
        module.register_buffer(name, value.new_empty(0))


def own_weights(shared: bool | None, internal: bool | None) -> tuple[bool, bool]:
    """Complete what a caller said of weights: shared unless told, internal where shared.

    Parameters
    ----------
    shared, internal : bool or None
        None stands for the default.

    Returns
    -------
    shared, internal : bool
        Both decided.

    Raises
    ------
    ValueError
        If weights of each sample are to be parameters.
    """
    shared = shared is not False
    internal = shared if internal is None else internal
    if internal and not shared:
        raise ValueError("internal_weights=True needs shared_weights=True, got False")
    return shared, internal


def choose_weights(
    name: str, given: Tensor | None, internal: Tensor, numel: int, *, shared: bool
) -> Tensor:
    """Return the weights that a caller gave, or else the internal ones.

    Parameters
    ----------
    name : str
        Of the argument, for the error.
    given : Tensor or None, (..., numel)
        Of the caller.
    internal : Tensor, (numel,) or (0,)
        Of the module; empty where it owns none.
    numel : int
        How many are needed.
    shared : bool
        Whether all samples have the same.

    Returns
    -------
    Tensor, (..., numel)
        Not checked further.

    Raises
    ------
    ValueError
        If there are none, or they have leading axes and must not.
    """
    if given is not None:
        check_tensor(name, given)
        if shared and given.ndim != 1:
            raise ValueError(
                f"{name} must be ({numel},), for shared_weights is True, got {tuple(given.shape)}"
            )
        return given
    if numel and internal.numel() != numel:
        raise ValueError(f"{name} (..., {numel}) must be given: there is no internal one")
    return internal


def check_operands(named: dict[str, tuple[Tensor, int]]) -> None:
    """Refuse arguments that do not fit together, but for their leading axes.

    Parameters
    ----------
    named : dict of (Tensor, int)
        Each by the name of the argument, with the length of its last axis; the first gives the
        dtype and the device.

    Raises
    ------
    TypeError
        If dtypes are not floating or differ.
    ValueError
        If a last axis is wrong, or devices differ.
    """
    for name, (value, _) in named.items():
        check_tensor(name, value)
    first = next(iter(named))
    features = named[first][0]
    for name, (value, dim) in named.items():
        if not value.is_floating_point():
            raise TypeError(f"{name} must be floating, got {value.dtype}")
        if value.ndim == 0 or value.shape[-1] != dim:
            raise ValueError(f"{name} must be (..., {dim}), got {tuple(value.shape)}")
        if value.dtype != features.dtype and not autocast_active():  # which casts matrices
            raise TypeError(
                f"{name} must have the dtype of {first}, {features.dtype}, got {value.dtype}"
            )
        if value.device != features.device:
            raise ValueError(
                f"{name} must be on the device of {first}, {features.device}, got {value.device}"
            )


def leading_axes(named: dict[str, tuple[Tensor, int]]) -> torch.Size:
    """Leading axes of the output.

    Parameters
    ----------
    named : dict of (Tensor, int)
        All arguments by name, as above.

    Returns
    -------
    torch.Size
        Those of all arguments, broadcast.

    Raises
    ------
    ValueError
        If they do not broadcast.
    """
    try:
        return torch.broadcast_shapes(*(value.shape[:-1] for value, _ in named.values()))
    except RuntimeError as error:
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, (value, _) in named.items())
        raise ValueError(f"leading axes must broadcast, got {given}") from error
