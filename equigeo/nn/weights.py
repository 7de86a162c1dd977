"""Internal and external weights of a layer, and checks of its operands."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_tensor


def hold_weights(
    module: nn.Module,
    name: str,
    value: Tensor,  # (numel,), initial values
    *,
    internal: bool,  # whether the module owns the weights
) -> None:
    """Register weights as a parameter, or as an empty buffer if they are external."""
    # The name always exists, as in e3nn; otherwise a state_dict would not load.
    if internal and len(value):
        module.register_parameter(name, nn.Parameter(value))
    else:
        module.register_buffer(name, value.new_empty(0))


def own_weights(shared: bool | None, internal: bool | None) -> tuple[bool, bool]:
    """Resolve defaults: weights are shared, and internal if they are shared."""
    shared = shared is not False
    internal = shared if internal is None else internal
    if internal and not shared:
        raise ValueError("internal_weights=True needs shared_weights=True, got False")
    return shared, internal


def choose_weights(
    name: str,  # argument name in messages
    given: Tensor | None,  # (..., numel)
    internal: Tensor,  # (numel,), or (0,) if the module owns none
    numel: int,
    *,
    shared: bool,  # whether all samples have the same weights
) -> Tensor:
    """Return the given weights or the internal ones, or raise if there are none."""
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


def check_operands(
    # tensor and last axis by name; the first sets dtype and device
    named: dict[str, tuple[Tensor, int]],
    *,
    mixed: bool = False,  # whether dtypes may differ, as where autocast casts matrices
) -> None:
    """Raise if dtypes, devices or last axes of named arguments do not match."""
    for name, (value, _) in named.items():
        check_tensor(name, value)
    first = next(iter(named))
    features = named[first][0]
    for name, (value, dim) in named.items():
        if not value.is_floating_point():
            raise TypeError(f"{name} must be floating, got {value.dtype}")
        if value.ndim == 0 or value.shape[-1] != dim:
            raise ValueError(f"{name} must be (..., {dim}), got {tuple(value.shape)}")
        if value.dtype != features.dtype and not mixed:
            raise TypeError(
                f"{name} must have the dtype of {first}, {features.dtype}, got {value.dtype}"
            )
        if value.device != features.device:
            raise ValueError(
                f"{name} must be on the device of {first}, {features.device}, got {value.device}"
            )


def leading_axes(named: dict[str, tuple[Tensor, int]]) -> torch.Size:
    """Return the broadcast leading axes of arguments as in :func:`check_operands`."""
    try:
        return torch.broadcast_shapes(*(value.shape[:-1] for value, _ in named.values()))
    except RuntimeError as error:
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, (value, _) in named.items())
        raise ValueError(f"leading axes must broadcast, got {given}") from error
