"""Gradients of products that are linear in each operand, of the first two orders."""

from __future__ import annotations

from collections.abc import Callable
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
    r"""Backward of the op of the gradients of a product.

    Such a product is one form :math:`F(g, x, y, w)`, linear in each argument, and the gradients
    :math:`a, b, c` that arrive at its own make the sum
    :math:`F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c)`. So second derivatives are the product and
    its gradients again, at other points.

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
        # By name, since the product refers to its gradients: modules would import one another.
        product, gradients = declared(name), declared(f"{name}_backward")
        end = list(rest).index("values") + 1
        table, layout = list(rest.values())[:end], list(rest.values())[end:]
        total: Gradients = {}
        for operand, along in zip(OPERANDS, (a, b, c), strict=True):
            if along is None or (operand == "weight" and weight is None):
                continue
            point = {"x": x, "y": y, "weight": weight, operand: along}
            if "grad" in needed:
                value = product(*point.values(), *table, grad.shape[1], *layout)
                _add(total, {"grad": value})
            others = needed.intersection(OPERANDS) - {operand}
            if others:
                parts = gradients(grad, *point.values(), *rest.values())
                named = dict(zip(OPERANDS, parts, strict=True))
                _add(total, {other: named[other] for other in OPERANDS if other in others})
        return total

    return backward


def _add(total: Gradients, parts: dict[str, Tensor]) -> None:
    for name, part in parts.items():
        known = total.get(name)
        total[name] = part if known is None else known + part
