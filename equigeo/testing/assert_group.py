"""Consistency checks of user-defined groups and representations."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups import Group, matrix_exp
from equigeo.ops.runtime.tolerance import tolerance
from equigeo.reps import Representation

STEPS = (0.9, -0.4)
"""How far to go along each generator: far from the identity, yet no strong stretch."""


def assert_group(group: Group) -> None:
    """Check that a group is closed and that its parts are consistent.

    Generators must be independent and closed under brackets, and ``contains`` must accept their
    exponentials, one element per component, and products and inverses of these. The first violation
    raises ``AssertionError``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from equigeo.groups import O
    >>> assert_group(O(3))
    >>> @dataclass(frozen=True)
    ... class Wrong(Group):
    ...     n = 2
    ...     def generators(self):
    ...         return torch.eye(2, dtype=torch.float64)[None]  # scales
    ...     def contains(self, g, *, tol=None):
    ...         return (torch.linalg.det(g) - 1).abs() < 1e-6  # preserves areas
    >>> assert_group(Wrong())
    Traceback (most recent call last):
    ...
    AssertionError: Wrong() is no group: it does not contain the exponential of 0.9 ...
    """
    if not isinstance(group, Group):
        raise TypeError(f"group must be a Group, got {type(group).__name__}")

    def holds(law: bool | Tensor, text: str) -> None:
        if not bool(law):
            raise AssertionError(f"{group} is no group: {text}")

    basis, parts, size = group.generators(), group.components(), group.size
    for name, matrices in (("generators", basis), ("components", parts)):
        square = matrices.ndim == 3 and matrices.shape[1:] == (size, size)
        holds(square, f"{name} must be (k, {size}, {size}), got {tuple(matrices.shape)}")
    identity = torch.eye(size, dtype=torch.float64)
    holds(len(parts) > 0, "it has no component")
    holds(torch.equal(parts[0], identity), "its first component must be the identity")
    for k, part in enumerate(parts):
        holds(group.contains(part), f"it does not contain its component {k}")
    flat = basis.flatten(1)
    independent = len(basis) == 0 or torch.linalg.matrix_rank(flat) == len(basis)
    holds(independent, "its generators depend on one another")
    for step in STEPS:
        for k, g in enumerate(group.exp(step * basis)):
            text = f"it does not contain the exponential of {step} times generator {k}"
            holds(group.contains(g), text)
    holds(_is_closed(basis), "brackets of its generators are no sums of generators")
    elements = group.testing_elements(torch.Generator().manual_seed(0))
    holds(group.contains(elements).all(), "it does not contain its own testing elements")
    inverse = group.inverse(elements)
    # Entries of elements and inverses bound the rounding of their product.
    bounds = (size * elements.abs().amax((1, 2)) * inverse.abs().amax((1, 2))).clamp(min=1)
    close = tolerance(torch.float64, size)["rtol"]
    errors = (elements @ inverse - identity).abs().amax((1, 2))
    holds(
        (errors <= close * bounds).all(),
        "products of elements with their inverses are not the identity",
    )
    holds(group.contains(inverse).all(), "it does not contain the inverses of its elements")
    products = elements @ elements.roll(1, 0)
    holds(group.contains(products).all(), "it does not contain products of its elements")


def _is_closed(basis: Tensor) -> bool:
    """Return whether brackets of matrices (d, n, n) are in their span."""
    if not len(basis):
        return True
    brackets = basis[:, None] @ basis - basis @ basis[:, None]
    flat, brackets = basis.flatten(1), brackets.flatten(0, 1).flatten(1)
    q, _ = torch.linalg.qr(flat.mT)
    left = brackets - brackets @ q @ q.mT
    bound = tolerance(torch.float64, flat.shape[1])["rtol"] * float(basis.abs().amax()) ** 2
    return bool(left.abs().amax() <= bound)


def assert_representation(rep: Representation) -> None:
    """Check that matrices of a representation multiply as elements of its group do.

    Checks the group, the identity, products, ``act`` against ``matrix``, and exponentials of
    generators against ``algebra``; of an affine representation ``act`` alone. The first violation
    raises ``AssertionError``.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep
    >>> assert_representation(TensorRep(O(3), up=2))
    """
    if not isinstance(rep, Representation):
        raise TypeError(f"rep must be a Representation, got {type(rep).__name__}")
    assert_group(rep.group)
    group, generator = rep.group, torch.Generator().manual_seed(0)
    g = group.testing_elements(generator)
    x = torch.randn(len(g), rep.dim, dtype=torch.float64, generator=generator)
    h = g.roll(1, 0)
    once, twice = rep.act(g @ h, x), rep.act(g, rep.act(h, x))
    _assert_close(rep, "products act as one element after the other", once, twice, x)
    same = rep.act(group.identity().expand_as(g), x)
    _assert_close(rep, "the identity changes nothing", same, x, x)
    if not rep.is_linear:
        return
    by_matrix = (rep.matrix(g) @ x[..., None])[..., 0]
    _assert_close(rep, "act is multiplication by matrix", rep.act(g, x), by_matrix, x)
    basis = group.generators()
    for step in STEPS:
        of_group, of_algebra = rep.matrix(group.exp(step * basis)), step * rep.algebra(basis)
        law = "matrices of exponentials are exponentials of algebra"
        _assert_close(rep, law, of_group, matrix_exp(of_algebra), of_algebra)


def _assert_close(rep: Representation, law: str, got: Tensor, want: Tensor, given: Tensor) -> None:
    """Raise ``AssertionError`` if two results differ by more than rounding."""
    if got.shape != want.shape:
        raise AssertionError(
            f"{rep} is no representation: {law} is violated, shapes are {tuple(got.shape)} and "
            f"{tuple(want.shape)}"
        )
    if not want.numel():
        return
    size = max(1.0, float(want.abs().max()), float(given.abs().max()))
    # Two elements of a group that stretches cancel up to the square of their size.
    bound = tolerance(torch.float64, max(64, rep.dim))["rtol"] * size**2
    error = float((got - want).abs().max())
    if not error <= bound:
        raise AssertionError(f"{rep} is no representation: {law} is violated by {error:.2g}")
