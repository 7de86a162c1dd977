"""Forward mode of ops that are linear in each of several arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import BatchRule
from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.ops.runtime.tape import Function, Tangents


def linear_in(
    name: str,  # name of the op
    operands: Sequence[str],  # arguments in which it is linear
) -> Function:
    """Return the forward rule of an op with one result that is linear in each operand."""

    def forward(tangents: Tangents, **arguments: Any) -> Tensor | None:
        change = None
        # dz = f(dx, y, ...) + f(x, dy, ...) + ...
        for operand in operands:
            if operand in tangents:
                part = declared(name)(*(arguments | {operand: tangents[operand]}).values())
                change = part if change is None else change + part
        return change

    return forward


def gradients_linear_in(
    name: str,  # op with the derivatives of F(g, x, y, ...) by all but g as results
    operands: Sequence[str],  # all arguments in which the form is linear, g first
    asked: Sequence[str] = (),  # flags that request each result, if the op has them
) -> Function:
    """Return the forward rule of an op that returns the gradients of a multilinear form."""

    def forward(tangents: Tangents, **arguments: Any) -> list[Tensor | None]:
        changes: list[Tensor | None] = [None] * (len(operands) - 1)
        flags = [bool(arguments[flag]) for flag in asked] or [True] * len(changes)
        for operand in operands:
            # F is linear: its derivative by an operand does not depend on that operand.
            wanted = [flag and of != operand for of, flag in zip(operands[1:], flags, strict=True)]
            if operand not in tangents or not any(wanted):
                continue
            moved = {operand: tangents[operand], **dict(zip(asked, wanted, strict=False))}
            parts = declared(name)(*(arguments | moved).values())
            for k, part in enumerate(parts):
                if wanted[k]:
                    change = changes[k]
                    changes[k] = part if change is None else change + part
        return changes

    return forward


def each_of_a_batch(
    name: str,  # op with a reference composed of ops that can be batched
) -> BatchRule:
    """Return the vmap rule of an op with batched matrices: vmap over its reference."""

    def batch(_: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Any:
        batched = torch.vmap(reference_of(name), in_dims=tuple(dims[n] for n in arguments))
        found = batched(*arguments.values())
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return batch
