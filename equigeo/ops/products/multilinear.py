"""Gradients of products that are linear in each operand, of the first two orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.declare import Gradients


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
        a: Tensor,
        b: Tensor,
        c: Tensor,
        *,
        grad: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor | None,
        **rest: Any,
    ) -> Gradients:
        # By name, since the product refers to its gradients: modules would import one another.
        product_op = getattr(torch.ops.equigeo, name).default
        gradients_op = getattr(torch.ops.equigeo, f"{name}_backward").default

        def product(x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
            out: Tensor = product_op(x, y, weight, dim_out=grad.shape[1], **rest)
            return out

        def gradients(x: Tensor, y: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
            results: tuple[Tensor, ...] = gradients_op(grad, x, y, weight, *rest.values())
            return results

        _, y_a, w_a = gradients(a, y, weight)
        x_b, _, w_b = gradients(x, b, weight)
        to_grad = product(a, y, weight) + product(x, b, weight)
        if weight is None:
            return {"grad": to_grad, "x": x_b, "y": y_a}
        x_c, y_c, _ = gradients(x, y, c)
        to_grad = to_grad + product(x, y, c)
        return {"grad": to_grad, "x": x_b + x_c, "y": y_a + y_c, "weight": w_a + w_b}

    return backward
