"""Options of convolutions by orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equigeo.nn.config import Config


@dataclass(frozen=True)
class SO2Config(Config):
    """Options of convolutions by orders.

    Parameters
    ----------
    group : {"O3", "SO3"}
        "O3" allows of each pair of irreps the weights that its parities allow: the real parts
        between irreps that are both natural, p = (-1)^l, or both not, the imaginary parts between
        one of each. "SO3" ignores parities and has both everywhere, as networks of fairchem do;
        energies of mirror images then differ.
    modulation : {None, "order", "degree"}
        Numbers of an edge that multiply its source in the frame: none, one for each order of each
        copy, or one for each copy.
    weights : {None, "orders", "paths"}
        What parameters are: matrices of orders, or weights of the paths of the Clebsch-Gordan
        product that the convolution is. By default orders, and paths where the degrees of the
        filter are limited.
    bias : bool
        Whether order 0 of the frame has a bias; in O3 only natural irreps do.
    sources : {"source", "both"}
        Whether an edge sends the features of its source, or those of source and target side by
        side, the channels of the source first in each term.
    layout : {"mul_ir", "ir_mul"}
        Layout of the features of nodes.
    internal_weights : bool
        Whether the module owns its matrices; otherwise each call is given them.

    Examples
    --------
    >>> SO2Config(group="SO3", modulation="order").bias
    False
    """

    title = "the configuration of a convolution by orders"

    group: Literal["O3", "SO3"] = "O3"
    modulation: Literal["order", "degree"] | None = None
    weights: Literal["orders", "paths"] | None = None
    bias: bool = False
    sources: Literal["source", "both"] = "source"
    layout: Literal["mul_ir", "ir_mul"] = "mul_ir"
    internal_weights: bool = True
