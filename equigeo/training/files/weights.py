"""Validation of weights from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from equigeo._brief import shown

# Buffers whose square root or inverse is taken, by the end of their name.
_NOT_NEGATIVE = ("running_var", "deviation")


def check_weights(
    expected: Mapping[str, Tensor],  # `state_dict` of the model
    given: Mapping[str, Any],  # content of a file
) -> None:
    """Raise unless weights are finite CPU tensors that fit a ``state_dict``."""
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        raise ValueError(f"it lacks the weights {shown(missing)} and has {shown(unknown)} instead")
    for name, value in expected.items():
        problem = _problem(name, value, given[name])
        if problem:
            raise ValueError(f"weight {name!r} {problem}")


def stored_numbers(value: object) -> int:
    """Return the number of elements in the storage of a tensor; expanded axes count once."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested:
        return 0
    return min(value.numel(), value.untyped_storage().nbytes() // value.element_size())


def _problem(name: str, expected: Tensor, given: object) -> str:
    """Return the defect of a weight, testing its shape before its values."""
    if not isinstance(given, Tensor):
        return f"must be a tensor, got {shown(given)}"
    if given.is_nested or given.layout != torch.strided or given.device.type != "cpu":
        return "is no dense tensor in memory"
    if given.shape != expected.shape:
        return f"has shape {shown(tuple(given.shape))}, expected {tuple(expected.shape)}"
    if _kind(given.dtype) != _kind(expected.dtype):
        return f"has numbers of {given.dtype}, expected {expected.dtype}"
    if expected.dtype.is_floating_point:
        numbers = given.detach().to(expected.dtype)
        if not bool(numbers.isfinite().all()):
            return f"has numbers that are not finite in {expected.dtype}"
        if name.endswith(_NOT_NEGATIVE) and bool((numbers < 0).any()):
            return "has negative numbers, which a variance cannot have"
    return ""


def _kind(dtype: torch.dtype) -> str:
    """Return the kind of a dtype (floating, complex, integer, other), for any precision."""
    if dtype.is_floating_point:
        return "floating"
    if dtype.is_complex:
        return "complex"
    whole = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    return "whole" if dtype in whole else str(dtype)
