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
    """Name and arguments of an op, and its number of results."""

    name: str
    arguments: tuple[str, ...]  # all arguments in order
    tensors: frozenset[str]  # those that are tensors, including optional ones
    results: int  # number of results

    @classmethod
    def parse(cls, schema: str) -> Signature:
        """Parse ``name(arguments) -> results``: no defaults, and all results are tensors."""
        found = re.fullmatch(r"(\w+)\((.*)\) -> (Tensor|\((?:Tensor(?:, )?)+\))", schema)
        pairs = [argument.split(" ") for argument in found[2].split(", ")] if found else []
        if found is None or not all(len(pair) == 2 and pair[1].isidentifier() for pair in pairs):
            raise ValueError(f"schema must be name(type name, ...) -> tensors, got {schema!r}")
        tensors = frozenset(name for kind, name in pairs if kind in ("Tensor", "Tensor?"))
        arguments = tuple(name for _, name in pairs)
        return cls(found[1], arguments, tensors, found[3].count("Tensor"))


def named_parameters(
    function: Function,
    names: Sequence[str],  # valid names
    rest: Sequence[str],  # names that a parameter **rest stands for, besides those with a parameter
    *,
    keyword_only: bool = False,  # whether to ignore positional parameters
) -> list[str]:
    """Return the names that a function takes, in the order of its parameters."""
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


def by_position(
    function: Function,
    names: Sequence[str],  # names of the values
) -> Function:
    """Wrap a function with named parameters to take one value per name, in order."""
    taken = named_parameters(function, names, rest=names)
    parameters = inspect.signature(function).parameters.values()
    if taken == list(names) and all(p.kind == p.POSITIONAL_OR_KEYWORD for p in parameters):
        return function
    pick = picker([names.index(name) for name in taken])
    return lambda *values: function(**dict(zip(taken, pick(values), strict=True)))


def picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that selects items of a sequence as a tuple, also for one position."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[position] for position in positions)
