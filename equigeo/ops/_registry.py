"""The place where ops are declared to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
    return getattr(torch.ops.equigeo, name).default
