"""The place where ops are declared to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from equigeo.ops.runtime.torch_internals import (
    below_autograd,
    forward_mode_active,
    transforms_active,
)

SCHEMAS: dict[str, str] = {}
"""Schema of every declared op by name; the compiled libraries must have been built from these."""

_LIBRARY = torch.library.Library("equigeo", "DEF")


def declare(
    schema: str,
    *,
    reference: Callable[..., Any],
    fake: Callable[..., Any],
    setup_context: Callable[..., None],
    backward: Callable[..., Any],
    vmap: Callable[..., Any] | None = None,
    direct: bool = False,
) -> Callable[..., Any]:
    """Declare one op: its schema, the body used where no kernel is loaded, and its gradient.

    A loaded library adds a body for its device and the dispatcher prefers it, so nothing else in
    the package asks whether kernels exist.

    Parameters
    ----------
    schema : str
        ``name(arguments) -> results`` in PyTorch's schema language.
    reference : callable
        The readable body, correct on every device.
    fake : callable
        Shapes and dtypes of the results.
    setup_context, backward : callable
        As in :func:`torch.library.register_autograd`.
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
        The op.
    """
    name = schema.partition("(")[0]
    SCHEMAS[name] = schema
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, reference, "CompositeExplicitAutograd")
    torch.library.register_fake(f"equigeo::{name}", fake, lib=_LIBRARY)
    torch.library.register_autograd(
        f"equigeo::{name}", backward, setup_context=setup_context, lib=_LIBRARY
    )
    op = getattr(torch.ops.equigeo, name).default
    if vmap is not None:
        return _transformable(op, setup_context, backward, vmap)
    return _direct(op) if direct else op


def _direct(op: Callable[..., Any]) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        if torch.compiler.is_compiling() or _differentiated(inputs):
            return op(*inputs)
        with below_autograd():
            return op(*inputs)

    return call


def _differentiated(inputs: tuple[Any, ...]) -> bool:
    if transforms_active() or forward_mode_active():
        return True
    return torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in inputs
    )


def _transformable(
    op: Callable[..., Any],
    setup_context: Callable[..., None],
    backward: Callable[..., Any],
    vmap: Callable[..., Any],
) -> Callable[..., Any]:
    """Wrap an op for eager mode: the dispatcher's gradients are slow and unknown to torch.func."""

    def compute(*inputs: Any) -> Any:
        with below_autograd():
            return op(*inputs)

    def compute_and_keep(ctx: Any, *inputs: Any) -> Any:
        output = compute(*inputs)
        setup_context(ctx, inputs, output)
        return output

    def batched(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return vmap(call, info, in_dims, *inputs)

    # Binding the arguments of a separate setup_context takes longer than many a kernel.
    plain = _function(forward=compute_and_keep, backward=backward)
    transformed = _function(
        forward=op, setup_context=setup_context, backward=backward, vmap=batched
    )

    def call(*inputs: Any) -> Any:
        if torch.compiler.is_compiling():
            return op(*inputs)
        if transforms_active():
            return transformed.apply(*inputs)
        return plain.apply(*inputs) if torch.is_grad_enabled() else compute(*inputs)

    return call


def _function(**methods: Callable[..., Any]) -> Any:
    parts = {name: staticmethod(method) for name, method in methods.items()}
    return type("EquigeoFunction", (torch.autograd.Function,), parts)
