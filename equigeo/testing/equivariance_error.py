"""Violation of a law of equivariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from equigeo.testing._law import Law, RepsIn, RepsOut


def equivariance_error(
    fn: Callable[..., Any],
    rep_in: RepsIn = None,
    rep_out: RepsOut = None,
    *,
    inputs: Sequence[Any],
    elements: Tensor | None = None,
) -> float:
    r"""Return the largest relative violation of ``fn(g x) == g fn(x)``.

    .. math:: \max_{g,\,k} \frac{\max_i |f_k(g x) - \rho_k(g) f_k(x)|_i}
                                {\max_i |\rho_k(g) f_k(x)|_i}

    over elements g and outputs k; the deviation is absolute where the expected output is zero,
    1 where an integer output changes, and infinite where it is NaN or changes shape. For layers
    that sample, follow it along the number of samples.

    Parameters
    ----------
    fn, rep_in, rep_out, inputs, elements
        As in :func:`equigeo.testing.assert_equivariant`.

    Returns
    -------
    float
        Zero for an exact law.

    Raises
    ------
    TypeError, ValueError
        If the declaration is incomplete, inconsistent or trivial.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep, Trivial
    >>> x = torch.eye(3, dtype=torch.float64)
    >>> largest = lambda v: v.abs().amax(-1, keepdim=True)  # not the length
    >>> equivariance_error(largest, TensorRep(O(3)), Trivial(O(3), 1), inputs=[x]) > 0.1
    True
    """
    return Law.resolve(fn, rep_in, rep_out, inputs=inputs, elements=elements).worst().error
