"""Forward mode of ops that are linear in each of several arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from equigeo.ops.runtime.declare import Tangents, declared
from equigeo.ops.runtime.signature import Function


def linear_in(name: str, operands: Sequence[str]) -> Function:
    r"""Forward rule of an op with one result: the op itself, on one tangent at a time.

    .. math:: \dot z = f(\dot x, y, \dots) + f(x, \dot y, \dots) + \dots

    Parameters
    ----------
    name : str
        Name of the op.
    operands : sequence of str
        The arguments in each of which it is linear.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """

    def forward(tangents: Tangents, **arguments: Any) -> Tensor | None:
        change = None
        for operand in operands:
            if operand in tangents:
                part = declared(name)(*(arguments | {operand: tangents[operand]}).values())
                change = part if change is None else change + part
        return change

    return forward


def gradients_linear_in(name: str, operands: Sequence[str], asked: Sequence[str] = ()) -> Function:
    r"""Forward rule of the gradients of a form that is linear in each of several arguments.

    Parameters
    ----------
    name : str
        Name of the op, whose results are the derivatives of
        :math:`F(g, x, y, \dots)` with respect to all but the first argument.
    operands : sequence of str
        All arguments in which the form is linear, the first of them g.
    asked : sequence of str
        Arguments that say of each result whether it is asked for, of an op that has such.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """

    def forward(tangents: Tangents, **arguments: Any) -> list[Tensor | None]:
        changes: list[Tensor | None] = [None] * (len(operands) - 1)
        flags = [bool(arguments[flag]) for flag in asked] or [True] * len(changes)
        for operand in operands:
            # A derivative does not depend on what it is taken by.
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
