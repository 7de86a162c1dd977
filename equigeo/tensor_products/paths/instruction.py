"""One path of a tensor product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Instruction:
    """A path from two input terms to an output term, with connection and factor.

    Iterates like the named tuple of e3nn, whose ``connection_mode`` is the ``connection`` here.

    Parameters
    ----------
    i_in1, i_in2, i_out : int
        Positions of the terms in ``irreps_in1``, ``irreps_in2`` and ``irreps_out``.
    connection : str
        One of ``uvw uvu uvv uuw uuu uvuv uvu<v u<vw``.
    has_weight : bool
        Whether the path has weights.
    path_weight : float
        As an argument, the variance of the path relative to others: it enters under a square root.
        In ``TensorProduct.instructions``, the factor that results, as in e3nn.
    path_shape : tuple of int
        Shape of the weights. As an argument, it may be left empty.

    Examples
    --------
    >>> path = Instruction(0, 1, 0, "uvw", True)
    >>> i_in1, i_in2, i_out, connection, *_ = path
    >>> connection == path.connection_mode
    True
    """

    i_in1: int
    i_in2: int
    i_out: int
    connection: str
    has_weight: bool
    path_weight: float = 1.0
    path_shape: tuple[int, ...] = ()

    @property
    def connection_mode(self) -> str:
        """Return the connection mode by its name in e3nn."""
        return self.connection

    def __iter__(self) -> Iterator[object]:
        """Iterate over the fields in order, as code written for e3nn expects."""
        return iter(astuple(self))
