"""Work of the linear layers around a product."""

from __future__ import annotations

from equigeo.nn import Linear


def linear_multiply_adds(linear: Linear) -> int:
    """Count multiplications that are added up, for one sample.

    Parameters
    ----------
    linear : Linear
        Without biases.

    Returns
    -------
    int
        Multiplicities of both sides times components, over all blocks of weights.
    """
    terms = linear.irreps_out.terms
    return sum(
        ins.path_shape[0] * ins.path_shape[1] * (2 * terms[ins.i_out][1][0] + 1)
        for ins in linear.instructions
    )
