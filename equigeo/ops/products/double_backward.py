"""What ops have in common that differentiate the gradients of a product in one pass.

They take the form of a product, tangents of its operands, what the gradients take besides, and of
each argument of the form whether its derivative is wanted; what is not is empty, (0, 0). Their
reference implementation is made of the product and its gradients, so that devices without a kernel
for them lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from equigeo.ops.products.multilinear import (
    FORM,
    OPERANDS,
    add_to,
    derivatives_of_form,
    second_derivatives,
)
from equigeo.ops.runtime.declare import Gradients

TANGENTS = tuple(f"{operand}_tangent" for operand in OPERANDS)
"""Tangents of the operands, None for zeros."""
WANTED = tuple(f"by_{name}" for name in FORM)
"""Whether the derivative by each argument of the form is wanted."""
FEATURES = (*FORM, *TANGENTS)
"""The arguments with rows."""


def backward_by_double_backward(double_backward: Callable[..., Any]) -> Callable[..., Gradients]:
    """Backward of the op of the gradients of a product, where one op has it.

    Parameters
    ----------
    double_backward : callable
        That op.

    Returns
    -------
    callable
        For ``declare``.
    """

    def backward(
        a: Tensor | None = None,
        b: Tensor | None = None,
        c: Tensor | None = None,
        *,
        differentiable: set[str],
        **arguments: Any,
    ) -> Gradients:
        values = list(arguments.values())
        point, rest = values[: len(FORM)], values[len(FORM) :]
        tangents = (a, b, None if arguments["weight"] is None else c)
        wanted = [name in differentiable for name in FORM]
        slopes = double_backward(*point, *tangents, *rest, *wanted)
        return {
            name: slope for name, slope in zip(FORM, slopes, strict=True) if name in differentiable
        }

    return backward


def composed_double_backward(name: str) -> Callable[..., tuple[Tensor, ...]]:
    """Reference implementation: the product and its gradients at other points.

    Parameters
    ----------
    name : str
        Name of the op of the product.

    Returns
    -------
    callable
        For ``declare``.
    """

    def reference(x: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        point, tangents, wanted, rest = _parts({"x": x, **arguments})
        needed = [of for of, is_wanted in wanted.items() if is_wanted]
        slopes = second_derivatives(name, point, list(tangents.values()), rest, needed)
        missing = _empty(x=x, **arguments)
        return tuple(
            empty.zero_() if (slope := slopes.get(of)) is None else slope
            for of, empty in zip(FORM, missing, strict=True)
        )

    return reference


def fake_double_backward(x: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Empty results, for ``declare``.

    Parameters
    ----------
    x : Tensor
        Argument of the op.
    **arguments : object
        All others.

    Returns
    -------
    tuple of Tensor
        Like the arguments of the form.
    """
    return _empty(x=x, **arguments)


def backward_of_double_backward(name: str) -> Callable[..., Gradients]:
    r"""Backward of such an op: derivatives of third order, made of the product and its gradients.

    The form changes by :math:`F` with a tangent in the place of one operand; what arrives takes
    another place of it, and the rest are the arguments to differentiate by.

    Parameters
    ----------
    name : str
        Name of the op of the product.

    Returns
    -------
    callable
        For ``declare``.
    """

    def backward(
        to_grad: Tensor | None = None,
        to_x: Tensor | None = None,
        to_y: Tensor | None = None,
        to_weight: Tensor | None = None,
        *,
        needed: set[str],
        **arguments: Any,
    ) -> Gradients:
        point, tangents, wanted, rest = _parts(arguments)
        arriving = dict(zip(FORM, (to_grad, to_x, to_y, to_weight), strict=True))
        total: Gradients = {}
        for operand, tangent in zip(OPERANDS, tangents.values(), strict=True):
            for place, along in arriving.items():
                present = tangent is not None and along is not None and point[place] is not None
                if not present or not wanted[place] or place == operand:
                    continue
                # In the place of an operand stands its tangent.
                names = {of: of if of != operand else f"{operand}_tangent" for of in FORM}
                asked = [of for of in FORM if of != place and names[of] in needed]
                moved = {**point, operand: tangent, place: along}
                parts = derivatives_of_form(name, moved, rest, asked)
                add_to(total, {names[of]: part for of, part in parts.items()})
        return total

    return backward


def _parts(arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Split arguments by name: the point, tangents, what is wanted of each, and the rest."""
    point = {of: arguments[of] for of in FORM}
    tangents = {of: arguments[of] for of in TANGENTS}
    wanted = {of: arguments[f"by_{of}"] for of in FORM}
    known = {*FEATURES, *WANTED}
    return point, tangents, wanted, {k: v for k, v in arguments.items() if k not in known}


def _empty(**arguments: Any) -> tuple[Tensor, ...]:
    like: Tensor = arguments["x"]
    given = [arguments[of] if arguments[by] else None for of, by in zip(FORM, WANTED, strict=True)]
    return tuple(like.new_empty((0, 0) if of is None else of.shape) for of in given)
