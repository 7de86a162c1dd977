"""One path of a tensor product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Instruction:
    """A path from two input terms to an output term; iterates like the named tuple of e3nn.

    Parameters
    ----------
    i_in1, i_in2, i_out : int
        Positions of the terms.
    connection : str
        One of ``uvw uvu uvv uuw uuu uvuv uvu<v u<vw``; ``connection_mode`` in e3nn.
    has_weight : bool
    path_weight : float
        As an argument, the relative variance of the path. In ``TensorProduct.instructions``, the
        resulting factor, as in e3nn.
    path_shape : tuple of int
        Shape of the weights; may be left empty as an argument.

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
