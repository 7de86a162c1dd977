"""The place where ops are declared to PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.batching import BatchRule, none_of_a_batch
from equigeo.ops.runtime.signature import Function, Signature, by_position
from equigeo.ops.runtime.storage import HALF, in_float32
from equigeo.ops.runtime.tape import NEEDED, Gradients, Tangents, Tape
from equigeo.ops.runtime.torch_internals import (
    below_autograd,
    forward_mode_active,
    recorder,
    transforms_active,
)

__all__ = [
    "NEEDED",
    "SCHEMAS",
    "Gradients",
    "Tangents",
    "declare",
    "declared",
    "like",
    "reference_of",
]

SCHEMAS: dict[str, str] = {}
"""Schema of every declared op by name; the compiled libraries must have been built from these."""

_DECLARED: dict[str, Function] = {}
_REFERENCES: dict[str, Function] = {}

_LIBRARY = torch.library.Library("equigeo", "DEF")


def declare(  # noqa: PLR0913 - all by name
    schema: str,
    *,
    reference: Function,
    fake: Function,
    backward: Callable[..., Gradients] | Sequence[str],
    batch: BatchRule,
    forward: Function | None = None,
    results: Sequence[str] = (),
    constant_results: Sequence[str] = (),
    bfloat16: Sequence[str] = (),
) -> Function:
    """Declare one op: its schema, the body used where no kernel is loaded, and its derivatives.

    A loaded library adds a body for its device and the dispatcher prefers it, so nothing else in
    the package asks whether kernels exist. The functions below name, by their parameters, the
    arguments of the schema that they take, in any order; ``**rest`` takes all others.

    Half precision is storage: where the first argument has it, the op and its derivatives are
    computed in float32, and results and gradients rounded once, by casts outside of the op.

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
        set of the arguments by which this pass differentiates, or ``differentiable``, of all those
        that could have gradients. The gradient of a result that nothing depends on is zeros, or
        None if a positional parameter has that default. Or the names of arguments by which PyTorch
        is to differentiate the reference.
    batch : callable
        How the op takes one more axis, from :mod:`equigeo.ops.runtime.batching`.
    forward : callable, optional
        Forward mode: from :data:`Tangents`, its positional parameter, and what it names as a
        backward does, to the tangents of all results, None for zeros. By default the transpose of
        ``backward``, which costs a gradient of it.
    results : sequence of str
        Names of all results, where one is asked for.
    constant_results : sequence of str
        Those that are not differentiable.
    bfloat16 : sequence of str
        Arguments that the op reads in bfloat16 itself, all of them or none, and writes results in,
        so that the casts and their memory are saved.

    Returns
    -------
    callable
        The op; it takes all arguments by position, the first of which is a tensor.

    Raises
    ------
    ValueError
        If the schema is of another form, or a function takes what it does not name.
    """
    signature = Signature.parse(schema)
    if not callable(backward):
        backward = _differentiate(reference, signature, backward)
    tape = Tape(signature, backward, forward, results, constant_results)
    body = by_position(reference, signature.arguments)
    shapes = by_position(fake, signature.arguments)
    # Names fit: only now is anything registered.
    name = signature.name
    SCHEMAS[name] = schema
    _define(name, schema)
    _REFERENCES[name] = body
    _LIBRARY.impl(name, body, "CompositeExplicitAutograd")
    torch.library.register_fake(f"equigeo::{name}", _on_one_device(signature, shapes), lib=_LIBRARY)
    _DECLARED[name] = _Op(signature, tape, batch, bfloat16).register()
    return _DECLARED[name]


def _on_one_device(signature: Signature, shapes: Function) -> Function:
    """Refuse a meta tensor among others, which PyTorch takes for a call that asks for shapes."""

    def fake(*inputs: Any) -> Any:
        on_meta = {
            name: x.device.type == "meta"
            for name, x in zip(signature.arguments, inputs, strict=True)
            if isinstance(x, Tensor)
        }
        if len(set(on_meta.values())) > 1:
            names = ", ".join(name for name, empty in on_meta.items() if empty)
            raise ValueError(
                f"{signature.name} needs tensors on one device, got {names} on the meta device: "
                "fill the module that holds it by to_empty() and load_state_dict()"
            )
        return shapes(*inputs)

    return fake


def declared(name: str) -> Function:
    """Find an op by its name, for rules of ops that refer to each other.

    Parameters
    ----------
    name : str
        As in its schema.

    Returns
    -------
    callable
        What :func:`declare` returned.
    """
    return _DECLARED[name]


def reference_of(name: str) -> Function:
    """Find the reference implementation of an op, for comparisons with its kernels.

    Parameters
    ----------
    name : str
        As in its schema.

    Returns
    -------
    callable
        It takes all arguments by position, and PyTorch differentiates it.
    """
    return _REFERENCES[name]


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


def _differentiate(
    reference: Function, signature: Signature, names: Sequence[str]
) -> Callable[..., Gradients]:
    """Backward in which PyTorch differentiates the reference by some arguments."""
    if unknown := set(names).difference(signature.tensors):
        raise ValueError(f"{signature.name} takes no tensor {', '.join(unknown)}")
    call = by_position(reference, signature.arguments)

    def pulled_back(*arriving: Tensor, **arguments: Any) -> Gradients:
        def of_inputs(inputs: dict[str, Tensor]) -> Any:
            return call(*((arguments | inputs)[name] for name in signature.arguments))

        given = {name: arguments[name] for name in names if arguments[name] is not None}
        pair: Any = torch.func.vjp(of_inputs, given)
        found, pull = pair
        (slopes,) = pull(arriving if isinstance(found, tuple) else arriving[0])
        gradients: Gradients = slopes
        return gradients

    def backward(*arriving: Tensor, **arguments: Any) -> Gradients:
        if transforms_active():
            return pulled_back(*arriving, **arguments)
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # One argument may depend on another: differentiate by copies of the handles.
            inputs = {
                name: x.view_as(x) if x.requires_grad else x.detach().requires_grad_()
                for name, x in arguments.items()
                if name in names and x is not None
            }
            values = arguments | inputs
            outputs = call(*(values[name] for name in signature.arguments))
            slopes = torch.autograd.grad(
                outputs, list(inputs.values()), arriving, create_graph=again, materialize_grads=True
            )
        return dict(zip(inputs, slopes, strict=True))

    return backward


class _Op:
    """An op in all modes of PyTorch: eager, recorded, transformed and compiled.

    In eager mode it goes round the dispatcher, whose way to a gradient written in Python takes
    longer than the kernel of a small problem.
    """

    def __init__(
        self, signature: Signature, tape: Tape, batch: BatchRule, bfloat16: Sequence[str]
    ) -> None:
        self._signature = signature
        self._batch = batch
        names = signature.arguments
        self._tensors = [n for n, name in enumerate(names) if name in signature.tensors]
        self._bfloat16 = [signature.arguments.index(name) for name in bfloat16]
        self._overload = getattr(torch.ops.equigeo, signature.name).default
        # Binding the arguments of a separate setup_context takes longer than many a kernel.
        self._recorded = _function(forward=self._compute_and_keep(tape), backward=tape.backward)
        self._transformed = _function(
            forward=self._compute,
            setup_context=tape.keep_all,
            backward=tape.backward_of_all,
            jvp=tape.jvp,
            vmap=self._vmap,
        )

    def register(self) -> Function:
        """Register what the dispatcher calls; return what the package calls."""
        name, call = f"equigeo::{self._signature.name}", self._eager()
        _LIBRARY.impl(self._signature.name, self._from_dispatcher, "Autograd")
        torch.library.register_vmap(name, self._vmap, lib=_LIBRARY)
        return call

    def _eager(self) -> Function:
        overload, compute = self._overload, self._compute
        recorded, transformed = recorder(self._recorded), self._transformed.apply
        requires_grad = self._requires_grad

        def call(*inputs: Any) -> Any:
            if inputs[0].dtype in HALF and not self._takes(inputs):
                return in_float32(call, inputs)
            if torch.compiler.is_compiling():
                return overload(*inputs)
            if transforms_active() or forward_mode_active():
                return transformed(*inputs)
            if torch.is_grad_enabled() and requires_grad(inputs):
                return recorded(*inputs)
            return compute(*inputs)

        return call

    def _takes(self, inputs: tuple[Any, ...]) -> bool:
        """Whether half precision is that which the op reads itself."""
        given = [inputs[k] for k in self._bfloat16 if inputs[k] is not None]
        return bool(given) and all(x.dtype == torch.bfloat16 for x in given)

    def _from_dispatcher(self, *inputs: Any) -> Any:
        """Body of the autograd keys, for calls of ``torch.ops.equigeo`` and compiled programs."""
        name = f"torch.ops.equigeo.{self._signature.name}"
        remedy = "call the functions and layers of equigeo instead, not compiled"
        if forward_mode_active():
            if transforms_active():
                raise NotImplementedError(f"{name} has no forward mode under torch.func; {remedy}")
            return self._transformed.apply(*inputs)
        if torch.is_grad_enabled() and self._requires_grad(inputs):
            if transforms_active():
                # A compiler takes a NotImplementedError for a reason to go on without this op.
                raise RuntimeError(
                    f"{name} has no gradient by torch.func inside of torch.compile; {remedy}, or "
                    "differentiate by torch.autograd.grad"
                )
            return self._recorded.apply(*inputs)
        return self._compute(*inputs)

    def _requires_grad(self, inputs: tuple[Any, ...]) -> bool:
        for position in self._tensors:
            x = inputs[position]
            if x is not None and x.requires_grad:
                return True
        return False

    def _compute(self, *inputs: Any) -> Any:
        with below_autograd():
            return self._overload(*inputs)

    def _compute_and_keep(self, tape: Tape) -> Function:
        compute, keep = self._compute, tape.keep

        def forward(ctx: Any, *inputs: Any) -> Any:
            output = compute(*inputs)
            keep(ctx, inputs, output)
            return output

        return forward

    def _vmap(self, info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        names = self._signature.arguments
        arguments = dict(zip(names, inputs, strict=True))
        dims = dict(zip(names, in_dims, strict=True))
        op = declared(self._signature.name)
        if info.batch_size == 0:
            return none_of_a_batch(self._batch, op, arguments, dims)
        return self._batch(op, info.batch_size, arguments, dims)


def _function(**methods: Function) -> Any:
    parts = {name: staticmethod(method) for name, method in methods.items()}
    return type("EquigeoFunction", (torch.autograd.Function,), parts)
