"""Rules of :func:`torch.vmap` for ops: a batch is one larger problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo._core.tensors import values_readable

Batched = tuple[Any, Any]
"""Results and the axis of the batch in each."""

BatchRule = Callable[..., Batched]
"""From an op, the size of the batch, and arguments and their batch axes by name."""


def blocks(
    rows: Sequence[str],  # arguments with a leading axis of rows; all results have one
    *,
    # arguments that hold row numbers: the argument that they index
    indices: Mapping[str, str] | None = None,
    # arguments that hold segment offsets, from 0 to the number of entries
    offsets: Sequence[str] = (),
) -> BatchRule:
    """Return the vmap rule of an op with concatenated problems, such as clouds or graphs."""
    indices = {} if indices is None else indices

    def batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
        arguments, dims = share_the_rest(arguments, dims, allowed=rows)
        given = dict(arguments)
        for name in rows:
            if given[name] is not None:
                given[name] = in_front(arguments[name], dims[name], size).flatten(0, 1)
        for name, counted in indices.items():
            rows_axis = 1 if dims[counted] == 0 else 0
            length = arguments[counted].shape[rows_axis] - (counted in offsets)
            block = torch.arange(size, device=arguments[name].device) * length
            given[name] = (arguments[name] + block[:, None]).flatten()
        for name in offsets:
            begin = arguments[name]
            block = torch.arange(size, device=begin.device) * begin[-1]
            given[name] = torch.cat([begin[:1], (begin[1:] + block[:, None]).flatten()])
        return _unflatten(op(*given.values()), 0, size)

    return batch


def channels(
    names: Sequence[str],  # arguments with that axis; all results have it
) -> BatchRule:
    """Return the vmap rule of an op that treats all entries of axis 1 of some arguments alike."""

    def batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
        arguments, dims = share_the_rest(arguments, dims, allowed=names)
        given = dict(arguments)
        for name in names:
            if given[name] is not None:
                x = in_front(arguments[name], dims[name], size)
                given[name] = x.movedim(0, 1).flatten(1, 2)
        return _unflatten(op(*given.values()), 1, size)

    return batch


def in_front(
    x: Tensor,
    dim: int | None,  # batch axis of x
    size: int,  # batch size
) -> Tensor:  # (size, ...)
    """Return a view with the batch axis first, expanding tensors without one."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def none_of_a_batch(
    rule: BatchRule,  # as returned by blocks
    op: Any,
    arguments: Mapping[str, Any],
    dims: Mapping[str, Any],  # batch axis of each argument
) -> Batched:
    """Apply a rule to an empty batch, running one zero problem to get the result shapes."""
    one = dict(arguments)
    for name, dim in dims.items():
        if isinstance(dim, int):
            x = one[name].movedim(dim, 0)
            one[name] = x.new_zeros(1, *x.shape[1:]).movedim(0, dim)
    results, axes = rule(op, 1, one, dims)
    if isinstance(results, Tensor):
        return results.narrow(axes, 0, 0), axes
    return tuple(x.narrow(axis, 0, 0) for x, axis in zip(results, axes, strict=True)), axes


def share_the_rest(
    arguments: Mapping[str, Any],  # by name
    dims: Mapping[str, Any],  # batch axis of each argument
    *,
    allowed: Sequence[str],  # arguments that may keep a batch axis
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Select one of the equal members of arguments that must not vary within a batch."""
    shared, axes = dict(arguments), dict(dims)
    for name, dim in dims.items():
        if isinstance(dim, int) and name not in allowed:
            members = arguments[name].movedim(dim, 0)
            if not _are_equal(members):
                raise NotImplementedError(
                    f"torch.vmap can batch {', '.join(allowed)} here, but not {name} of different "
                    "values: members of an ensemble share the tables of a layer, so give "
                    "functional_call parameters alone"
                )
            shared[name], axes[name] = members[0], None
    return shared, axes


def _are_equal(members: Tensor) -> bool:
    """Return whether the entries of the first axis are equal, if their values can be read."""
    return values_readable(members) and torch.equal(members, members[:1].expand_as(members))


def _unflatten(results: Any, axis: int, size: int) -> Batched:
    def split(x: Tensor) -> Tensor:
        return x.unflatten(axis, (size, x.shape[axis] // size))

    if isinstance(results, Tensor):
        return split(results), axis
    return tuple(map(split, results)), (axis,) * len(results)
