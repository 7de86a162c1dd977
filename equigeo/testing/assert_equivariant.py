"""The one helper that tests every layer."""

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

    Actions are computed in float64 and cast to the dtype of the input, so that only ``fn`` is at
    fault. The error is relative to the largest component of the expected output and compared with
    ``tolerance(dtype, terms, condition)`` for the coarsest dtype involved and at least 64 terms,
    but 0.05 at most. Half precision cannot tell smaller faults from rounding: test in a finer
    dtype, as the message says where the error may be either.

    Parameters
    ----------
    fn : callable
        The map. A module's attributes ``rep_in`` and ``rep_out`` are used where the arguments are
        left out.
    rep_in : Representation or sequence of (Representation or None), optional
        One entry per input. None stands for an object that has its own ``act(g)``, such as a
        TriangleMesh, and for an argument that stays fixed, such as an edge list. May be left out
        where every input is of that kind. A text stands for irreps.
    rep_out : Representation or sequence of Representation, optional
        One entry per output; ``Trivial(group, dim)`` declares an invariant one, and
        ``Trivial(group, 1)`` any number of invariants. A scalar output has one feature; an
        integer output must be invariant.
    inputs : sequence
        Arguments of ``fn``; features are floating tensors (..., dim).
    elements : Tensor, (elements, size, size), floating, optional
        Elements to try; by default ``group.testing_elements``, improper ones included, from a
        fixed seed. The group is the largest declared one that acts through all representations:
        declare one affine representation and the rest may stay linear.
    condition : float
        By how much ``fn`` amplifies relative rounding errors, at least 1.

    Raises
    ------
    AssertionError
        If the law is violated; names the element, its determinant, the error and the tolerance.
        If the group is none, see :func:`equigeo.testing.assert_group`: once per process and group.
    ValueError
        If the declaration is incomplete or inconsistent, if nothing would move on either side, or
        if every output is zero: such laws hold for every function.
    TypeError
        If an input or output is not a tensor where it must be.

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
    """Return the advice for errors that may be a defect or rounding."""
    if not LARGEST < worst.error <= rounding:
        return ""
    return f"; it may be rounding of {worst.dtype}, which cannot tell: test in a finer dtype"
