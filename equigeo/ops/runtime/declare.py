"""The place where ops are declared to PyTorch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.signature import (
    Function,
    Signature,
    by_position,
    named_parameters,
    picker,
)
from equigeo.ops.runtime.torch_internals import (
    below_autograd,
    forward_mode_active,
    transforms_active,
)

SCHEMAS: dict[str, str] = {}
"""Schema of every declared op by name; the compiled libraries must have been built from these."""

NEEDED = "needed"
"""Name under which a backward asks which arguments need a gradient."""

Gradients = dict[str, Tensor | None]
"""Gradients by the names of arguments; those that are missing have none."""

_LIBRARY = torch.library.Library("equigeo", "DEF")


def declare(
    schema: str,
    *,
    reference: Function,
    fake: Function,
    backward: Callable[..., Gradients] | Sequence[str],
    results: Sequence[str] = (),
    constant_results: Sequence[str] = (),
    vmap: Function | None = None,
    direct: bool = False,
) -> Function:
    """Declare one op: its schema, the body used where no kernel is loaded, and its gradient.

    A loaded library adds a body for its device and the dispatcher prefers it, so nothing else in
    the package asks whether kernels exist. The functions below name, by their parameters, the
    arguments of the schema that they take, in any order; ``**rest`` takes all others.

    Parameters
    ----------
    schema : str
        ``name(arguments) -> results`` in PyTorch's schema language.
    reference : callable
        The reference implementation, correct on every device.
    fake : callable
        Empty results of the right shapes and dtypes, as :func:`like` makes them.
    backward : callable or sequence of str
        From the gradients of all results, its positional parameters, to :data:`Gradients`. What it
        names by keyword-only parameters is kept for it: arguments, ``results``, and ``needed``, the
        set of the arguments that need a gradient. The gradient of a result that nothing depends on
        is zeros, or None if a positional parameter has that default. Or the names of arguments by
        which PyTorch is to differentiate the reference.
    results : sequence of str
        Names of all results, where one is asked for.
    constant_results : sequence of str
        Those that are not differentiable.
    vmap : callable, optional
        Called as ``vmap(op, info, in_dims, *inputs)``, else as in
        :func:`torch.library.register_vmap`. The op then takes part in the transforms of
        :mod:`torch.func`, reverse mode and batches.
    direct : bool
        Whether calls that need no gradient go round the dispatcher's, which takes longer than the
        kernel of a small problem.

    Returns
    -------
    callable
        The op; it takes all arguments by position.

    Raises
    ------
    ValueError
        If the schema is of another form, or a function takes what it does not name.
    """
    signature = Signature.parse(schema)
    if not callable(backward):
        backward = _differentiate(reference, signature, backward)
    tape = _Tape(signature, backward, results, constant_results)
    body = by_position(reference, signature.arguments)
    shapes = by_position(fake, signature.arguments)
    # Names fit: only now is anything registered.
    name = signature.name
    SCHEMAS[name] = schema
    _define(name, schema)
    _LIBRARY.impl(name, body, "CompositeExplicitAutograd")
    torch.library.register_fake(f"equigeo::{name}", shapes, lib=_LIBRARY)
    torch.library.register_autograd(
        f"equigeo::{name}", tape.backward, setup_context=tape.keep, lib=_LIBRARY
    )
    op = getattr(torch.ops.equigeo, name).default
    if vmap is not None:
        return _transformable(op, tape, vmap)
    return _direct(op) if direct else op


def _define(name: str, schema: str) -> None:
    """Define an op, unless a library of kernels that was loaded before has done so."""
    found = getattr(torch.ops.equigeo, name, None)
    if found is None:
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    elif str(found.default._schema) != f"equigeo::{schema}":
        raise ImportError(
            f"a library of kernels of another version is loaded: it has {found.default._schema}, "
            f"not {schema}"
        )


def like(*names: str) -> Function:
    """Fake of results that are like arguments, as gradients are.

    Parameters
    ----------
    *names : str
        The argument that each result has the shape of; an optional one that is missing has an
        empty gradient, (0, 0).

    Returns
    -------
    callable
        For :func:`declare`.

    Examples
    --------
    >>> to_x, to_weight = like("x", "weight")(x=torch.ones(2, 3), weight=None)
    >>> to_x.shape, to_weight.shape
    (torch.Size([2, 3]), torch.Size([0, 0]))
    """

    def fake(**arguments: Any) -> Tensor | tuple[Tensor, ...]:
        given = [arguments[name] for name in names]
        # contiguous, unlike results of torch.empty_like
        results = tuple(given[0].new_empty((0, 0) if x is None else x.shape) for x in given)
        return results if len(results) > 1 else results[0]

    return fake


class _Tape:
    """What autograd calls: keeps what a backward names, and gives it what was kept."""

    def __init__(
        self,
        signature: Signature,
        backward: Callable[..., Gradients],
        results: Sequence[str],
        constant_results: Sequence[str],
    ) -> None:
        _check_results(signature, results, constant_results)
        names = [*signature.arguments, *results]
        taken = named_parameters(
            backward, [*names, NEEDED], rest=signature.arguments, keyword_only=True
        )
        tensors = [name for name in taken if name in signature.tensors or name in results]
        others = [name for name in taken if name not in (*tensors, NEEDED)]
        self._function = backward
        self._arguments = signature.arguments
        self._known = frozenset(signature.arguments)
        self._optional = _takes_missing_gradients(backward, signature)
        self._asks = NEEDED in taken
        self._of_results = not set(results).isdisjoint(taken)
        self._constant = [results.index(name) for name in constant_results]
        self._tensors = picker([names.index(name) for name in tensors])
        self._others = picker([names.index(name) for name in others]) if others else None
        # In an order in which ** of the backward lists the rest as the schema does.
        self._kept = [name for name in taken if name != NEEDED]
        order = [[*tensors, *others].index(name) for name in self._kept]
        self._ordered = picker(order) if order != sorted(order) else None

    def keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep arguments and results, as :func:`torch.library.register_autograd` asks."""
        if self._constant:
            ctx.mark_non_differentiable(*(output[position] for position in self._constant))
        if self._optional:
            ctx.set_materialize_grads(False)
        if self._of_results:
            inputs = (*inputs, *(output if isinstance(output, tuple) else (output,)))
        ctx.save_for_backward(*self._tensors(inputs))
        if self._others is not None:
            ctx.others = self._others(inputs)

    def backward(self, ctx: Any, *arriving: Any) -> tuple[Tensor | None, ...]:
        """Differentiate, as :func:`torch.library.register_autograd` asks."""
        values = ctx.saved_tensors
        if self._others is not None:
            values = (*values, *ctx.others)
        if self._ordered is not None:
            values = self._ordered(values)
        kept = dict(zip(self._kept, values, strict=True))
        if self._asks:
            kept[NEEDED] = set(compress(self._arguments, ctx.needs_input_grad))
        gradients = self._function(*arriving, **kept)
        if not self._known.issuperset(gradients):
            raise ValueError(
                f"a backward must return gradients of {', '.join(self._arguments)}, "
                f"got {', '.join(gradients)}"
            )
        return tuple(map(gradients.get, self._arguments))


def _takes_missing_gradients(backward: Callable[..., Gradients], signature: Signature) -> bool:
    """Whether None stands for zeros, after making sure that there is a place for each gradient."""
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
    reserved = {*signature.arguments, NEEDED}
    if twice := reserved.intersection(results):
        raise ValueError(f"results of {signature.name} must not be named {', '.join(twice)}")
    if unknown := set(constant).difference(results):
        raise ValueError(
            f"{signature.name} has no results {', '.join(unknown)}, which are constant"
        )


def _differentiate(
    reference: Function, signature: Signature, names: Sequence[str]
) -> Callable[..., Gradients]:
    """Backward in which PyTorch differentiates the reference by some arguments."""
    if unknown := set(names).difference(signature.tensors):
        raise ValueError(f"{signature.name} takes no tensor {', '.join(unknown)}")
    call = by_position(reference, signature.arguments)

    def backward(*arriving: Tensor, **arguments: Any) -> Gradients:
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # One argument may depend on another: differentiate by copies of the handles.
            inputs = {
                name: x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
                for name, x in arguments.items()
                if name in names
            }
            values = arguments | inputs
            outputs = call(*(values[name] for name in signature.arguments))
            slopes = torch.autograd.grad(
                outputs, list(inputs.values()), arriving, create_graph=again, materialize_grads=True
            )
        return dict(zip(inputs, slopes, strict=True))

    return backward


def _direct(op: Function) -> Function:
    def call(*inputs: Any) -> Any:
        if torch.compiler.is_compiling() or _is_recorded(inputs):
            return op(*inputs)
        with below_autograd():
            return op(*inputs)

    return call


def _is_recorded(inputs: tuple[Any, ...]) -> bool:
    if transforms_active() or forward_mode_active():
        return True
    return torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in inputs
    )


def _transformable(op: Function, tape: _Tape, vmap: Function) -> Function:
    """Wrap an op for eager mode: the dispatcher's gradients are slow and unknown to torch.func."""

    def compute(*inputs: Any) -> Any:
        with below_autograd():
            return op(*inputs)

    def compute_and_keep(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        tape.keep(ctx, inputs, output)
        return output

    def batched(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return vmap(call, info, in_dims, *inputs)

    # Binding the arguments of a separate setup_context takes longer than many a kernel.
    plain = _function(forward=compute_and_keep, backward=tape.backward)
    transformed = _function(
        forward=op, setup_context=tape.keep, backward=tape.backward, vmap=batched
    )

    def call(*inputs: Any) -> Any:
        if torch.compiler.is_compiling():
            return op(*inputs)
        if transforms_active():
            return transformed.apply(*inputs)
        return plain.apply(*inputs) if torch.is_grad_enabled() else compute(*inputs)

    return call


def _function(**methods: Function) -> Any:
    parts = {name: staticmethod(method) for name, method in methods.items()}
    return type("EquigeoFunction", (torch.autograd.Function,), parts)
