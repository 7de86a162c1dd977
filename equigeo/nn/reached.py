"""Outputs of a layer that nothing arrives at.

A layer without any path gives zeros whatever its weights, and one that misses some terms gives
zeros there: with irreps as text, a parity or a degree is easily mistaken.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from equigeo.reps import Irreps, Representation, Summand

_allowed: ContextVar[bool] = ContextVar("unreached outputs allowed", default=False)


def check_reached(
    layer: str,
    irreps_in: Sequence[Irreps],
    irreps_out: Irreps,
    reached: Collection[int],
    stacklevel: int,
) -> None:
    """Refuse a layer that can only give zeros, and warn of one that gives zeros in some terms.

    Parameters
    ----------
    layer : str
        Name of its class.
    irreps_in : sequence of Irreps
        Of its inputs. Where one is empty, zeros are no mistake.
    irreps_out : Irreps
        Of its output.
    reached : collection of int
        Terms of the output that something arrives at.
    stacklevel : int
        As in ``warnings.warn``, counted from the caller.

    Raises
    ------
    ValueError
        If no term is reached, and there are any.

    Warns
    -----
    UserWarning
        If some are not; within :func:`allow_unreached`, if none is.

    Examples
    --------
    >>> check_reached("Linear", [Irreps("4x0e")], Irreps("2x1o"), (), 1)
    Traceback (most recent call last):
    ...
    ValueError: Linear needs a path to its output, got none from 4x0e to 2x1o: it would be zero
    """
    terms = [n for n, (mul, _) in enumerate(irreps_out.terms) if mul]
    missing = [n for n in terms if n not in reached]
    if not missing or not all(irreps.dim for irreps in irreps_in):
        return
    zeros = str(Irreps([irreps_out.terms[n] for n in missing]))
    whole = missing == terms
    _report(layer, list(map(str, irreps_in)), str(irreps_out), None if whole else zeros, stacklevel)


def check_summands_reached(
    layer: str,
    reps_in: Sequence[Representation],
    rep_out: Representation,
    reached: Collection[int],
    stacklevel: int,
) -> None:
    """Do as :func:`check_reached` does, for the summands of any representation.

    Parameters
    ----------
    layer : str
        Name of its class.
    reps_in : sequence of Representation
        Of its inputs.
    rep_out : Representation
        Of its output.
    reached : collection of int
        Summands of the output that something arrives at.
    stacklevel : int
        As in ``warnings.warn``, counted from the caller.

    Raises
    ------
    ValueError
        If no summand is reached, and there are any.

    Warns
    -----
    UserWarning
        If some are not; within :func:`allow_unreached`, if none is.
    """
    parts = rep_out.summands()
    missing = [part for n, part in enumerate(parts) if n not in reached]
    if not missing or not all(rep.dim for rep in reps_in):
        return
    zeros = None if len(missing) == len(parts) else _sum_of(missing)
    _report(layer, [_sum_of(rep.summands()) for rep in reps_in], _sum_of(parts), zeros, stacklevel)


def _sum_of(parts: Sequence[Summand]) -> str:
    """Text of a direct sum, copies counted."""
    return " + ".join(f"{len(part.positions)} {part.rep}" for part in parts)


def _report(layer: str, ins: list[str], out: str, zeros: str | None, stacklevel: int) -> None:
    """Refuse a layer of zeros, for which ``zeros`` is None, or warn of those that it gives."""
    inputs = " and ".join(ins)
    if zeros is None:
        problem = f"{layer} needs a path to its output, got none from {inputs} to {out}"
        if not _allowed.get():
            raise ValueError(f"{problem}: it would be zero")
        warnings.warn(f"{problem}: it is zero", stacklevel=stacklevel + 2)
    elif not _allowed.get():
        warnings.warn(
            f"{layer} from {inputs} to {out} has no path to {zeros}, which will be zero: "
            "leave it out, or check parities and degrees",
            stacklevel=stacklevel + 2,
        )


def warn_of_empty(
    irreps_in: Sequence[Irreps], wanted: Collection[tuple[int, int]], paths: int
) -> None:
    """Warn of a product that was asked for irreps of which its inputs make none.

    Unlike zeros, its empty output shows in the shape.

    Parameters
    ----------
    irreps_in : sequence of Irreps
        Of its inputs. Where one is empty, an empty output is no mistake.
    wanted : collection of (int, int)
        Irreps (l, p) that were asked for.
    paths : int
        How many lead to one of them.

    Warns
    -----
    UserWarning
        If none does, but within :func:`allow_unreached`.
    """
    if paths or not wanted or _allowed.get() or not all(irreps.dim for irreps in irreps_in):
        return
    names = "+".join(f"{l}{'e' if p > 0 else 'o'}" for l, p in sorted(wanted))
    warnings.warn(
        f"the product of {' and '.join(map(str, irreps_in))} has no path to any of {names}: its "
        "output is empty",
        stacklevel=4,
    )


@contextmanager
def allow_unreached() -> Iterator[None]:
    """Take layers as they are, zeros included: those of other libraries, and those to compare.

    Yields
    ------
    None
        While layers are built. One that could give nothing but zeros is warned of still.
    """
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)
