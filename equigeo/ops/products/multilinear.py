"""Gradients of products that are linear in each operand, of the first two orders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch import Tensor

from equigeo.ops.runtime.declare import Gradients, declared

OPERANDS = ("x", "y", "weight")
"""The arguments that products are linear in."""
FORM = ("grad", *OPERANDS)
"""Those of the form that a product makes with the gradient that arrives."""


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


def backward_of_gradients(name: str) -> Callable[..., Gradients]:
    """Backward of the op of the gradients of a product, made of these two ops.

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
        a: Tensor | None = None,
        b: Tensor | None = None,
        c: Tensor | None = None,
        *,
        grad: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        needed: set[str],
        **rest: Any,
    ) -> Gradients:
        point = {"grad": grad, "x": x, "y": y, "weight": weight}
        return second_derivatives(name, point, (a, b, c), rest, needed)

    return backward


def second_derivatives(
    name: str,
    point: dict[str, Tensor | None],
    tangents: Sequence[Tensor | None],
    rest: dict[str, Any],
    needed: Collection[str],
) -> Gradients:
    r"""Differentiate the gradients of a product along tangents.

    Such a product is one form :math:`F(g, x, y, w)`, linear in each argument, and the gradients
    change along :math:`a, b, c` by those of
    :math:`F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c)`. So second derivatives are the product and
    its gradients again, at other points.

    Parameters
    ----------
    name : str
        Name of the op of the product.
    point : dict of str to Tensor or None
        Arguments of the form, in the order of :data:`FORM`.
    tangents : sequence of Tensor or None
        Of x, y and the weights; None for zeros.
    rest : dict of str to object
        The other arguments of the op of the gradients.
    needed : collection of str
        The arguments to differentiate by.

    Returns
    -------
    Gradients
        By them, where they are not zero.
    """
    total: Gradients = {}
    for operand, along in zip(OPERANDS, tangents, strict=True):
        if along is not None and point[operand] is not None:
            others = [other for other in FORM if other in needed and other != operand]
            add_to(total, derivatives_of_form(name, {**point, operand: along}, rest, others))
    return total


def derivatives_of_form(
    name: str, point: dict[str, Any], rest: dict[str, Any], needed: Sequence[str]
) -> dict[str, Tensor]:
    """Differentiate the form of a product by its arguments: the product, and its gradients.

    Parameters
    ----------
    name : str
        Name of the op of the product.
    point : dict of str to Tensor or None
        Arguments of the form, in the order of :data:`FORM`.
    rest : dict of str to object
        The other arguments of the op of the gradients.
    needed : sequence of str
        The arguments to differentiate by.

    Returns
    -------
    dict of str to Tensor
        By them; not by weights that there are not.
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


def add_to(total: Gradients, parts: dict[str, Tensor]) -> None:
    """Add derivatives to others, argument by argument.

    Parameters
    ----------
    total : Gradients
        The sums so far, which are replaced.
    parts : dict of str to Tensor
        What to add.
    """
    for name, part in parts.items():
        known = total.get(name)
        total[name] = part if known is None else known + part
