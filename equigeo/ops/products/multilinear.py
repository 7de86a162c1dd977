"""Derivatives of the gradients of a product, in the product and its gradients again."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Gradients = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor, Tensor]]


def multilinear_second_order(
    product: Product,
    gradients: Gradients,
    point: tuple[Tensor, Tensor, Tensor, Tensor | None],
    arriving: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    r"""Gradients of the gradients of a product that is linear in each operand.

    Such a product is one form :math:`F(g, x, y, w)`, linear in each argument, and the gradients
    :math:`a, b, c` that arrive at its own make the sum
    :math:`F(g, a, y, w) + F(g, x, b, w) + F(g, x, y, c)`.

    Parameters
    ----------
    product : callable
        From x, y and weights to the output.
    gradients : callable
        From the gradient of the output, x, y and weights to the three gradients.
    point : tuple of Tensor
        ``grad, x, y, weight``; the last is None for a product without.
    arriving : tuple of Tensor
        Gradients of those of x, y and the weights.

    Returns
    -------
    tuple of Tensor
        For each member of ``point``.
    """
    grad, x, y, weight = point
    a, b, c = arriving
    _, y_a, w_a = gradients(grad, a, y, weight)
    x_b, _, w_b = gradients(grad, x, b, weight)
    to_grad = product(a, y, weight) + product(x, b, weight)
    if weight is None:
        return to_grad, x_b, y_a, None
    x_c, y_c, _ = gradients(grad, x, y, c)
    return to_grad + product(x, y, c), x_b + x_c, y_a + y_c, w_a + w_b
