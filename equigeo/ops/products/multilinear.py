"""Gradients of products that are linear in each operand, of all orders.

Such a product is one form :math:`F(g, x, y, w)` with the gradient that arrives, linear in each
argument, and its gradients are the derivatives of that form. Ops that differentiate these in one
pass take its arguments, tangents of the operands, what the gradients take besides, and of each
argument whether its derivative is wanted; what is not is empty, (0, 0). Their reference
implementation is made of the product and its gradients, so that devices without a kernel for them
lose nothing.
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


def backward_of_product(gradients: Callable[..., Any]) -> Callable[..., Gradients]:
    """Backward of the op of a product.

    Parameters
    ----------
    gradients : callable
        The op of its gradients: it takes that of the output and all arguments of the product but
        ``dim_out``, and returns those of x, y and the weights.

    Returns
    -------
    callable
        For ``declare``.
    """

    def backward(
        grad: Tensor, *, x: Tensor, y: Tensor, weight: Tensor | None, dim_out: int, **rest: Any
    ) -> Gradients:
        to_x, to_y, to_weight = gradients(grad, x, y, weight, *rest.values())
        return {"x": to_x, "y": to_y, "weight": None if weight is None else to_weight}

    return backward


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
    r"""Reference implementation: the product and its gradients at other points.

    Along tangents :math:`a, b, c` the form changes by
    :math:`F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c)`.

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
        slopes: Gradients = {}
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
                parts = _derivatives_of_form(name, moved, rest, asked)
                _add_to(total, {names[of]: part for of, part in parts.items()})
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


def _derivatives_of_form(
    name: str, point: dict[str, Any], rest: dict[str, Any], needed: Sequence[str]
) -> dict[str, Tensor]:
    """Differentiate the form by its arguments: the product, and its gradients.

    Not by weights that there are not.
    """
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
    """Add derivatives to others, argument by argument; the sums so far are replaced."""
    for name, part in parts.items():
        known = total.get(name)
        total[name] = part if known is None else known + part
