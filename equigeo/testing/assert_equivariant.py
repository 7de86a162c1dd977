"""Assertion of equivariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.tolerance import tolerance
from equigeo.testing._law import Law, RepsIn, RepsOut, Violation

LARGEST = 0.05
"""No relative error above this is rounding: a bound of half precision would let anything pass."""


def assert_equivariant(
    fn: Callable[..., Any],
    rep_in: RepsIn = None,
    rep_out: RepsOut = None,
    *,
    inputs: Sequence[Any],
    elements: Tensor | None = None,
    condition: float = 1.0,
) -> None:
    """Check that ``fn(g x) == g fn(x)`` for random and special elements of the group.

    Actions are computed in float64 and cast to the dtype of the input. The error is relative to the
    largest component of the expected output; the bound is ``tolerance(dtype, terms, condition)``
    for the coarsest dtype and at least 64 terms, but 0.05 at most. Test in a finer dtype than half
    precision: rounding hides smaller errors.

    Incomplete declarations, and laws that hold for every function because nothing moves or every
    output is zero, raise ``ValueError``. The group itself is checked once per process, see
    :func:`equigeo.testing.assert_group`.

    Parameters
    ----------
    fn : callable
        Function or module, whose attributes ``rep_in`` and ``rep_out`` are the defaults.
    rep_in : Representation or sequence of (Representation or None), optional
        One entry per input; text stands for irreps. None stands for an object with its own
        ``act(g)``, such as a TriangleMesh, and for a fixed argument, such as an edge list.
    rep_out : Representation or sequence of Representation, optional
        One entry per output. ``Trivial(group, dim)`` declares an invariant one,
        ``Trivial(group, 1)`` any number of invariants. Integer outputs must be invariant.
    inputs : sequence
        Arguments of ``fn``; features are floating tensors (..., dim).
    elements : Tensor, (elements, size, size), floating, optional
        By default ``group.testing_elements`` with a fixed seed. The group is the largest declared
        one that acts through all representations.
    condition : float
        Factor by which ``fn`` amplifies relative rounding errors, at least 1.

    Raises
    ------
    AssertionError
        With the element, its determinant, the error and the tolerance.

    Examples
    --------
    >>> from equigeo.reps import Irreps
    >>> x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    >>> vector, pseudovector = Irreps("1o"), Irreps("1e")
    >>> inputs = [x, x.flip(0)]
    >>> assert_equivariant(torch.linalg.cross, [vector, vector], pseudovector, inputs=inputs)
    >>> assert_equivariant(torch.linalg.cross, [vector, vector], vector, inputs=inputs)
    Traceback (most recent call last):
    ...
    AssertionError: output 0 is not equivariant under O(3): relative error 2 exceeds 3.1e-05 ...
    """
    law = Law.resolve(fn, rep_in, rep_out, inputs=inputs, elements=elements)
    reps = [rep for rep in (*law.reps_in, *law.reps_out) if rep is not None]
    terms = max(64, *(rep.dim for rep in reps))
    worst = law.worst()
    rounding = tolerance(worst.dtype, terms, condition)["rtol"]
    bound = min(rounding, LARGEST)
    if worst.error > bound:
        entries = [[round(value, 4) for value in row] for row in worst.g.tolist()]
        raise AssertionError(
            f"output {worst.output} is not equivariant under {law.group}: relative error "
            f"{worst.error:.2g} exceeds {bound:.2g} at the element of determinant "
            f"{float(torch.linalg.det(worst.g)):+.3g}, g = {entries}{_doubt(worst, rounding)}"
        )


def _doubt(worst: Violation, rounding: float) -> str:
    """Return advice for errors that may be a defect or rounding."""
    if not LARGEST < worst.error <= rounding:
        return ""
    return f"; it may be rounding of {worst.dtype}: test in a finer dtype"
