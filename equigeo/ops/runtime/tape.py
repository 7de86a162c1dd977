"""Adapters from rules with named arguments to methods that autograd calls by position."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import BackwardCFunction

from equigeo._core.tensors import arrives_at, autocast_active, rules_see_tangents, without_autocast

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


NEEDED = "needed"
"""Name under which a backward asks which arguments need a gradient."""

DIFFERENTIABLE = "differentiable"
"""Name under which it asks which arguments could have a gradient, in this pass or not.

Cheaper than ``needed``, which queries the autograd engine for each leaf. Use it where skipping a
gradient saves little."""

Gradients = dict[str, Tensor | None]
"""Gradients by the names of arguments; those that are missing have none."""

Tangents = dict[str, Tensor]
"""Tangents of the arguments that have one, by their names."""


class Tape:
    """The derivatives of one op, as methods with positional arguments for autograd functions."""

    def __init__(
        self,
        signature: Signature,
        backward: Callable[..., Gradients],
        forward: Function | None,
        results: Sequence[str],
        constant_results: Sequence[str],
        rest: Sequence[str] = (),
    ) -> None:
        _check_results(signature, results, constant_results)
        names = [*signature.arguments, *results]
        questions = [NEEDED, DIFFERENTIABLE]
        taken = named_parameters(
            backward, [*names, *questions], rest=rest or signature.arguments, keyword_only=True
        )
        self._asked = [name for name in questions if name in taken]
        self._by_backward = [name for name in taken if name not in questions]
        self._by_forward = self._by_backward
        if forward is not None:
            self._by_forward = named_parameters(
                forward, names, rest=signature.arguments, keyword_only=True
            )
        self._backward, self._forward = backward, forward
        self._arguments = signature.arguments
        self._known = frozenset(signature.arguments)
        self._optional = _takes_missing_gradients(backward, signature)
        self._constant = [results.index(name) for name in constant_results]
        self._reverse = _Keeper(signature, results, self._by_backward)
        both = dict.fromkeys([*self._by_backward, *self._by_forward])
        self._all = _Keeper(signature, results, list(both))

    def keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the values that ``backward`` names."""
        self._mark(ctx, output)
        ctx.save_for_backward(*self._reverse.save(ctx, inputs, output))

    def keep_all(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the values that both rules name, and the shapes of zeros of the results."""
        self._mark(ctx, output)
        tensors = self._all.save(ctx, inputs, output)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        results = output if isinstance(output, tuple) else (output,)
        ctx.results = [(result.shape, result.dtype, result.device) for result in results]

    def _mark(self, ctx: Any, output: Any) -> None:
        if self._constant:
            ctx.mark_non_differentiable(*(output[position] for position in self._constant))
        if self._optional:
            ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
        """Differentiate in reverse mode, after :meth:`keep`."""
        return self._differentiate(ctx, arriving, self._reverse.load(ctx))

    def backward_of_all(self, ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
        """Differentiate in reverse mode, after :meth:`keep_all`."""
        kept = self._all.load(ctx)
        # A view of a tensor whose transform has ended is the tensor in it.
        point = {name: _view(kept[name]) for name in self._by_backward}
        return self._differentiate(ctx, arriving, point)

    def _differentiate(
        self, ctx: Any, arriving: tuple[Any, ...], kept: dict[str, Any]
    ) -> tuple[Tensor | None, ...]:
        for question in self._asked:
            kept[question] = self._answer(ctx, question)
        if autocast_active():
            # In the dtype of the result, wherever ``backward`` is called.
            device = next((x.device.type for x in arriving if x is not None), "cpu")
            with without_autocast(device):
                gradients = self._backward(*arriving, **kept)
        else:
            gradients = self._backward(*arriving, **kept)
        if not self._known.issuperset(gradients):
            raise ValueError(
                f"a backward must return gradients of {', '.join(self._arguments)}, "
                f"got {', '.join(gradients)}"
            )
        return tuple(map(gradients.get, self._arguments))

    def _answer(self, ctx: Any, question: str) -> set[str]:
        """Return the arguments with possible gradients, or those of this backward pass."""
        could = compress(self._arguments, ctx.needs_input_grad)
        # torch.func puts its own around one.
        if question == DIFFERENTIABLE or not isinstance(ctx, BackwardCFunction):
            return set(could)
        nodes = [node for node, _ in ctx.next_functions if node is not None]
        return {name for name, node in zip(could, nodes, strict=True) if arrives_at(node)}

    def jvp(self, ctx: Any, *arriving: Any) -> Any:
        """Differentiate in forward mode, after :meth:`keep_all`."""
        kept = self._all.load(ctx)
        named = zip(self._arguments, arriving, strict=True)
        tangents = {name: x for name, x in named if isinstance(x, Tensor)}
        with rules_see_tangents(True):
            # The rule computes tangents of this level and propagates those of other levels.
            point = {name: _without_tangent(kept[name]) for name in self._by_forward}
            if self._forward is None:
                found = self._transpose(ctx, tangents, point)
            else:
                found = self._forward(tangents, **point)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        for position, (shape, dtype, device) in enumerate(ctx.results):
            if position in self._constant or not dtype.is_floating_point:
                found[position] = None
            elif found[position] is None:
                found[position] = torch.zeros(shape, dtype=dtype, device=device)
        return tuple(found) if len(found) > 1 else found[0]

    def _transpose(self, ctx: Any, tangents: Tangents, kept: dict[str, Any]) -> list[Tensor | None]:
        """Derive forward mode from reverse mode, which is linear in the arriving gradients."""
        zeros = [torch.zeros(shape, dtype=t, device=device) for shape, t, device in ctx.results]
        free = [
            position
            for position, zero in enumerate(zeros)
            if position not in self._constant and zero.is_floating_point()
        ]
        kept |= {question: set(tangents) for question in self._asked}

        def reverse(*arriving: Tensor) -> dict[str, Tensor]:
            given = list(zeros)
            for position, x in zip(free, arriving, strict=True):
                given[position] = x
            gradients = self._backward(*given, **kept)
            return {
                name: gradient
                for name, gradient in gradients.items()
                if gradient is not None and name in tangents
            }

        pair: Any = torch.func.vjp(reverse, *(zeros[position] for position in free))
        found, pull = pair
        slopes = iter(pull({name: tangents[name] for name in found}))
        return [next(slopes) if k in free else None for k in range(len(zeros))]


class _Keeper:
    """Saves named arguments and results of a call for the backward pass."""

    def __init__(self, signature: Signature, results: Sequence[str], names: Sequence[str]) -> None:
        given = [*signature.arguments, *results]
        tensors = [name for name in names if name in signature.tensors or name in results]
        others = [name for name in names if name not in tensors]
        self._of_results = not set(results).isdisjoint(names)
        self._tensors = picker([given.index(name) for name in tensors])
        self._others = picker([given.index(name) for name in others]) if others else None
        # In an order in which ** of a rule lists the rest as the schema does.
        self._names = list(names)
        order = [[*tensors, *others].index(name) for name in names]
        self._ordered = picker(order) if order != sorted(order) else None

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> tuple[Tensor | None, ...]:
        if self._of_results:
            inputs = (*inputs, *(output if isinstance(output, tuple) else (output,)))
        if self._others is not None:
            ctx.others = self._others(inputs)
        return self._tensors(inputs)

    def load(self, ctx: Any) -> dict[str, Any]:
        values = ctx.saved_tensors
        if self._others is not None:
            values = (*values, *ctx.others)
        if self._ordered is not None:
            values = self._ordered(values)
        return dict(zip(self._names, values, strict=True))


def _view(x: Any) -> Any:
    return x.view_as(x) if isinstance(x, Tensor) else x


def _without_tangent(x: Any) -> Any:
    if isinstance(x, Tensor) and x.is_floating_point():
        return forward_ad.unpack_dual(x).primal
    return x


def _takes_missing_gradients(backward: Callable[..., Gradients], signature: Signature) -> bool:
    """Return whether a rule accepts None for zero gradients, after validating its parameters."""
    parameters = inspect.signature(backward).parameters.values()
    places = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    any_number = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if len(places) > signature.results or (not any_number and len(places) < signature.results):
        raise ValueError(
            f"backward of {signature.name} must take {signature.results} gradients by position, "
            f"got {len(places)} parameters"
        )
    return any(p.default is None for p in places)


def _check_results(signature: Signature, results: Sequence[str], constant: Sequence[str]) -> None:
    if results and len(results) != signature.results:
        raise ValueError(f"{signature.name} has {signature.results} results, got names {results}")
    reserved = {*signature.arguments, NEEDED, DIFFERENTIABLE}
    if twice := reserved.intersection(results):
        raise ValueError(f"results of {signature.name} must not be named {', '.join(twice)}")
    if unknown := set(constant).difference(results):
        raise ValueError(
            f"{signature.name} has no results {', '.join(unknown)}, which are constant"
        )
