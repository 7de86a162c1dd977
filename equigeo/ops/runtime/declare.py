"""Declaration of ops to PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from equigeo._core.tensors import (
    HALF,
    below_autograd,
    body_of,
    forward_mode_active,
    in_float32,
    recorder,
    transforms_active,
)
from equigeo.ops.runtime.batching import BatchRule, none_of_a_batch
from equigeo.ops.runtime.tape import Function, Gradients, Signature, Tape, by_position

SCHEMAS: dict[str, str] = {}
"""Schema of every declared op by name; the compiled libraries must have been built from these."""

_DECLARED: dict[str, Function] = {}
_REFERENCES: dict[str, Function] = {}
_BFLOAT16: set[str] = set()

_LIBRARY = torch.library.Library("equigeo", "DEF")


def declare(  # noqa: PLR0913 - all by name
    schema: str,  # name(arguments) -> results
    *,
    reference: Function,
    fake: Function,  # empty results of the right shapes and dtypes
    # rule, or names of arguments to differentiate the reference by
    backward: Callable[..., Gradients] | Sequence[str],
    batch: BatchRule,  # vmap rule from equigeo.ops.runtime.batching
    rest: Sequence[str] = (),  # arguments that ** of backward takes, by default all others
    forward: Function | None = None,  # by default the transpose of backward
    results: Sequence[str] = (),  # names of all results, if a rule requests one
    constant_results: Sequence[str] = (),  # results that are not differentiable
    bfloat16: Sequence[str] = (),  # arguments that the op reads in bfloat16 without casts
) -> Function:
    """Register an op with its reference, derivatives and vmap rule, and return it."""
    # Rules name the arguments that they take by their parameters, in any order; **rest takes all
    # others. Half precision is storage: the op and its derivatives are computed in float32, and
    # results and gradients are rounded once.
    signature = Signature.parse(schema)
    if not callable(backward):
        backward = differentiated(reference, signature, backward)
    tape = Tape(signature, backward, forward, results, constant_results, rest)
    body = by_position(reference, signature.arguments)
    shapes = by_position(fake, signature.arguments)
    # Names fit: only now is anything registered.
    name = signature.name
    SCHEMAS[name] = schema
    _define(name, schema)
    _REFERENCES[name] = body
    if bfloat16:
        _BFLOAT16.add(name)
    _LIBRARY.impl(name, body, "CompositeExplicitAutograd")
    torch.library.register_fake(f"equigeo::{name}", _on_one_device(signature, shapes), lib=_LIBRARY)
    _DECLARED[name] = _Op(signature, tape, batch, bfloat16).register()
    return _DECLARED[name]


def _on_one_device(signature: Signature, shapes: Function) -> Function:
    """Reject meta tensors mixed with others, which PyTorch treats as a request for shapes."""

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
    """Return a declared op by name, for rules of ops that refer to each other."""
    return _DECLARED[name]


def reference_of(name: str) -> Function:
    """Return the reference implementation of an op, which takes all arguments by position."""
    return _REFERENCES[name]


def reads_bfloat16(name: str) -> bool:
    """Return whether an op reads bfloat16 without casts."""
    return name in _BFLOAT16


def _define(name: str, schema: str) -> None:
    """Define an op, unless a kernel library that was loaded earlier has defined it."""
    found = getattr(torch.ops.equigeo, name, None)
    if found is None:
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    elif str(found.default._schema) != f"equigeo::{schema}":
        raise ImportError(
            f"a library of kernels of another version is loaded: it has {found.default._schema}, "
            f"not {schema}"
        )


def like(
    *names: str,  # arguments, the first always a tensor
    flags: Sequence[str] = (),  # arguments that request each result; by default all are
) -> Function:
    """Return a fake with results shaped like the named arguments; (0, 0) if missing."""

    def fake(**arguments: Any) -> Tensor | tuple[Tensor, ...]:
        given = [arguments[name] for name in names]
        first: Tensor = given[0]
        if flags:
            given = [x if arguments[flag] else None for x, flag in zip(given, flags, strict=True)]
        # contiguous, unlike results of torch.empty_like
        results = tuple(first.new_empty((0, 0) if x is None else x.shape) for x in given)
        return results if len(results) > 1 else results[0]

    return fake


def differentiated(
    reference: Function, signature: Signature, names: Sequence[str]
) -> Callable[..., Gradients]:
    """Return a backward rule that lets PyTorch differentiate the reference by some arguments."""
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
        return slopes

    def backward(*arriving: Tensor, **arguments: Any) -> Gradients:
        if transforms_active():
            return pulled_back(*arriving, **arguments)
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # One argument may depend on another: differentiate by copies of the handles.
            inputs = {
                name: x.view_as(x) if x.requires_grad else _leaf(x)
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


def _leaf(x: Tensor) -> Tensor:
    """Return a copy of the handle that requires a gradient, with the tangent of the tensor."""
    value, tangent = forward_ad.unpack_dual(x) if forward_mode_active() else (x, None)
    leaf = value.detach().requires_grad_()
    return leaf if tangent is None else forward_ad.make_dual(leaf, tangent)


class _Op:
    """An op in all modes of PyTorch; eager calls bypass the dispatcher to reduce overhead."""

    def __init__(
        self, signature: Signature, tape: Tape, batch: BatchRule, bfloat16: Sequence[str]
    ) -> None:
        self._signature = signature
        self._batch = batch
        names = signature.arguments
        self._tensors = [n for n, name in enumerate(names) if name in signature.tensors]
        self._bfloat16 = [signature.arguments.index(name) for name in bfloat16]
        self._overload = getattr(torch.ops.equigeo, signature.name).default
        self._body = body_of(self._overload)
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
        """Register implementations with the dispatcher and return the eager function."""
        name, call = f"equigeo::{self._signature.name}", self._eager()
        _LIBRARY.impl(self._signature.name, self._from_dispatcher, "Autograd")
        torch.library.register_vmap(name, self._vmap, lib=_LIBRARY)
        return call

    def _eager(self) -> Function:
        overload, body, is_compiling = self._overload, self._body, torch.compiler.is_compiling
        recorded, transformed = recorder(self._recorded), self._transformed.apply
        requires_grad = self._requires_grad

        def call(*inputs: Any) -> Any:
            if inputs[0].dtype in HALF and not self._takes(inputs):
                return in_float32(call, inputs)
            if is_compiling():
                return overload(*inputs)
            if transforms_active() or forward_mode_active():
                return transformed(*inputs)
            if torch.is_grad_enabled() and requires_grad(inputs):
                return recorded(*inputs)
            with below_autograd():  # as _compute, without another call
                return body(*inputs)

        return call

    def _takes(self, inputs: tuple[Any, ...]) -> bool:
        """Return whether the op reads these half-precision arguments without casts."""
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
            return self._body(*inputs)

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
