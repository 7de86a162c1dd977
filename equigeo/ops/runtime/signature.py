"""The names in a schema, and calls that pass values by them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Signature:
    """Names of the arguments of an op and how many results it has.

    Parameters
    ----------
    name : str
        Of the op.
    arguments : tuple of str
        All arguments in order.
    tensors : frozenset of str
        Those that are tensors, optional ones among them.
    results : int
        Number of results.
    """

    name: str
    arguments: tuple[str, ...]
    tensors: frozenset[str]
    results: int

    @classmethod
    def parse(cls, schema: str) -> Signature:
        """Read a schema.

        Parameters
        ----------
        schema : str
            ``name(arguments) -> results`` in PyTorch's schema language: arguments of any type,
            without defaults; all results are tensors.

        Returns
        -------
        Signature
            Its names.

        Raises
        ------
        ValueError
            If it is not of this form.

        Examples
        --------
        >>> found = Signature.parse("scale(Tensor x, Tensor? y, int[] n) -> (Tensor, Tensor)")
        >>> found.arguments, sorted(found.tensors), found.results
        (('x', 'y', 'n'), ['x', 'y'], 2)
        """
        found = re.fullmatch(r"(\w+)\((.*)\) -> (Tensor|\((?:Tensor(?:, )?)+\))", schema)
        pairs = [argument.split(" ") for argument in found[2].split(", ")] if found else []
        if found is None or not all(len(pair) == 2 and pair[1].isidentifier() for pair in pairs):
            raise ValueError(f"schema must be name(type name, ...) -> tensors, got {schema!r}")
        tensors = frozenset(name for kind, name in pairs if kind in ("Tensor", "Tensor?"))
        arguments = tuple(name for _, name in pairs)
        return cls(found[1], arguments, tensors, found[3].count("Tensor"))


def named_parameters(
    function: Function, names: Sequence[str], rest: Sequence[str], *, keyword_only: bool = False
) -> list[str]:
    """List what a function takes out of some names.

    Parameters
    ----------
    function : callable
        Its parameters are names.
    names : sequence of str
        The names that there are.
    rest : sequence of str
        Those that a parameter ``**rest`` stands for, less the ones that have a parameter.
    keyword_only : bool
        Whether parameters that can be given by position take something else.

    Returns
    -------
    list of str
        In the order of the parameters.

    Raises
    ------
    ValueError
        If a parameter has another name.

    Examples
    --------
    >>> named_parameters(lambda y, **rest: None, ["x", "y", "z"], ["x", "y"])
    ['y', 'x']
    """
    parameters = inspect.signature(function).parameters.values()
    by_name = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
    by_either = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    taken = [p.name for p in (by_name if keyword_only else [*by_either, *by_name])]
    if unknown := [name for name in taken if name not in names]:
        raise ValueError(
            f"{function.__qualname__} takes {', '.join(unknown)}, which is none of "
            f"{', '.join(names)}"
        )
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        taken += [name for name in rest if name not in taken]
    return taken


def by_position(function: Function, names: Sequence[str]) -> Function:
    """Make a function that names what it takes one of all values in order.

    Parameters
    ----------
    function : callable
        Its parameters are among the names.
    names : sequence of str
        Names of the values.

    Returns
    -------
    callable
        Takes one value for each name; the function itself where it does so already.

    Raises
    ------
    ValueError
        If a parameter has another name.

    Examples
    --------
    >>> by_position(lambda y: 10 * y, ["x", "y"])(1, 2)
    20
    """
    taken = named_parameters(function, names, rest=names)
    parameters = inspect.signature(function).parameters.values()
    if taken == list(names) and all(p.kind == p.POSITIONAL_OR_KEYWORD for p in parameters):
        return function
    pick = picker([names.index(name) for name in taken])
    return lambda *values: function(**dict(zip(taken, pick(values), strict=True)))


def picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Make a function that picks items of a sequence, as a tuple however many they are.

    Parameters
    ----------
    positions : sequence of int
        Where they are.

    Returns
    -------
    callable
        From a sequence to a tuple.

    Examples
    --------
    >>> picker([2, 0])("abc"), picker([1])("abc"), picker([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
