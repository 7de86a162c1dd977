"""Gradients of products that are linear in each operand, of all orders.

A product P and the gradient g that arrives make one form :math:`F(g, x, y, w) = <g, P(x, y, w)>`,
linear in each argument; the gradients of P are the derivatives of F. A double-backward op takes
the arguments of F, one tangent per operand, the path table, and one flag per argument. Derivatives
that are not requested are empty tensors of shape (0, 0). Its reference implementation calls the
product and its gradients, so that devices without a kernel for it lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from equigeo.ops.runtime.declare import Gradients, declared

OPERANDS = ("x", "y", "weight")
"""The arguments that products are linear in."""
FORM = ("grad", *OPERANDS)
"""Those of the form that a product makes with the gradient that arrives."""
TANGENTS = tuple(f"{operand}_tangent" for operand in OPERANDS)
"""Tangents of the operands, None for zeros."""
WANTED = tuple(f"by_{name}" for name in FORM)
"""Whether the derivative by each argument of the form is wanted."""
FEATURES = (*FORM, *TANGENTS)
"""The arguments with rows."""


def backward_of_product(
    # op that takes the output gradient and all arguments but dim_out
    gradients: Callable[..., Any],
) -> Callable[..., Gradients]:
    """Return the backward rule of a product op."""

    def backward(
        grad: Tensor, *, x: Tensor, y: Tensor, weight: Tensor | None, dim_out: int, **rest: Any
    ) -> Gradients:
        to_x, to_y, to_weight = gradients(grad, x, y, weight, *rest.values())
        return {"x": to_x, "y": to_y, "weight": None if weight is None else to_weight}

    return backward


def backward_by_double_backward(
    double_backward: Callable[..., Any],  # that op
) -> Callable[..., Gradients]:
    """Return the backward rule of the gradient op of a product that has a double-backward op."""

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


def composed_double_backward(
    name: str,  # name of the product op
) -> Callable[..., tuple[Tensor, ...]]:
    """Return the reference, composed of the product and its gradients at other points."""

    def reference(x: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        point, tangents, wanted, rest = _parts({"x": x, **arguments})
        slopes: Gradients = {}
        # Along tangents a, b, c the form changes by F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c).
        for operand, along in zip(OPERANDS, tangents.values(), strict=True):
            if along is not None and point[operand] is not None:
                others = [of for of in FORM if wanted[of] and of != operand]
                moved = {**point, operand: along}
                _add_to(slopes, _derivatives_of_form(name, moved, rest, others))
        missing = _empty(x=x, **arguments)
        return tuple(
            empty.zero_() if (slope := slopes.get(of)) is None else slope
            for of, empty in zip(FORM, missing, strict=True)
        )

    return reference


def fake_double_backward(x: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Return empty results like the arguments of the form."""
    return _empty(x=x, **arguments)


def backward_of_double_backward(
    name: str,  # name of the product op
) -> Callable[..., Gradients]:
    """Return the third-order backward rule, composed of the product and its gradients."""

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
        # The form with one operand replaced by its tangent and another argument by the arriving
        # gradient is differentiated by the remaining arguments.
        for operand, tangent in zip(OPERANDS, tangents.values(), strict=True):
            for place, along in arriving.items():
                present = tangent is not None and along is not None and point[place] is not None
                if not present or not wanted[place] or place == operand:
                    continue
                # In the place of an operand stands its tangent.
                names = {of: of if of != operand else f"{operand}_tangent" for of in FORM}
                asked = [of for of in FORM if of != place and names[of] in needed]
                moved = {**point, operand: tangent, place: along}
                parts = _derivatives_of_form(name, moved, rest, asked)
                _add_to(total, {names[of]: part for of, part in parts.items()})
        return total

    return backward


def _parts(arguments: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Split arguments by name into the point, the tangents, the requested flags, and the rest."""
    point = {of: arguments[of] for of in FORM}
    tangents = {of: arguments[of] for of in TANGENTS}
    wanted = {of: arguments[f"by_{of}"] for of in FORM}
    known = {*FEATURES, *WANTED}
    return point, tangents, wanted, {k: v for k, v in arguments.items() if k not in known}


def _empty(**arguments: Any) -> tuple[Tensor, ...]:
    like: Tensor = arguments["x"]
    given = [arguments[of] if arguments[by] else None for of, by in zip(FORM, WANTED, strict=True)]
    return tuple(like.new_empty((0, 0) if of is None else of.shape) for of in given)


def _derivatives_of_form(
    name: str,  # name of the product op
    point: dict[str, Any],
    rest: dict[str, Any],
    needed: Sequence[str],
) -> dict[str, Tensor]:
    """Return the derivatives of the form by the needed arguments, except by missing weights."""
    # By name, since the product refers to its gradients: modules would import one another.
    found: dict[str, Tensor] = {}
    grad, *operands = point.values()
    if "grad" in needed:
        end = list(rest).index("values") + 1
        table, layout = list(rest.values())[:end], list(rest.values())[end:]
        found["grad"] = declared(name)(*operands, *table, grad.shape[1], *layout)
    if any(operand in needed for operand in OPERANDS):
        parts = declared(f"{name}_backward")(grad, *operands, *rest.values())
        named = zip(OPERANDS, parts, strict=True)
        found |= {o: part for o, part in named if o in needed and point[o] is not None}
    return found


def _add_to(total: Gradients, parts: dict[str, Tensor]) -> None:
    """Add derivatives to the sums per argument, replacing the sums."""
    for name, part in parts.items():
        known = total.get(name)
        total[name] = part if known is None else known + part
