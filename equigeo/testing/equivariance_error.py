"""Error of equivariance."""

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
    r"""Return the largest relative violation of ``fn(g x) == g fn(x)``, zero for an exact law.

    .. math:: \max_{g,\,k} \frac{\max_i |f_k(g x) - \rho_k(g) f_k(x)|_i}
                                {\max_i |\rho_k(g) f_k(x)|_i}

    over elements g and outputs k; absolute if the expected output is zero, 1 if an integer output
    changes, infinite for NaN or another shape. Arguments are those of
    :func:`equigeo.testing.assert_equivariant`.

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
