"""How ops take one more axis, as :func:`torch.vmap` asks: a batch is one larger problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equigeo.ops.runtime.torch_internals import values_readable

Batched = tuple[Any, Any]
"""Results and the axis of the batch in each."""

BatchRule = Callable[..., Batched]
"""From an op, the size of the batch, and arguments and their batch axes by name."""


def blocks(
    rows: Sequence[str],
    *,
    indices: Mapping[str, str] | None = None,
    offsets: Sequence[str] = (),
) -> BatchRule:
    """Rule of an op whose problems can lie one after another: rows, clouds, graphs.

    Parameters
    ----------
    rows : sequence of str
        Arguments with an axis of rows in front; all results have one too.
    indices : mapping of str to str, optional
        Arguments that hold numbers of rows, and the argument that they count: by its rows, or by
        its segments if it is among the offsets.
    offsets : sequence of str
        Arguments that say where segments begin, from 0 to the number of entries.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """
    indices = {} if indices is None else indices

    def batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
        arguments, dims = share_the_rest(arguments, dims, allowed=rows)
        given = dict(arguments)
        for name in rows:
            if given[name] is not None:
                given[name] = in_front(arguments[name], dims[name], size).flatten(0, 1)
        for name, counted in indices.items():
            length = _rows_of(counted, arguments, dims) - (counted in offsets)
            block = torch.arange(size, device=arguments[name].device) * length
            given[name] = (arguments[name] + block[:, None]).flatten()
        for name in offsets:
            begin = arguments[name]
            block = torch.arange(size, device=begin.device) * begin[-1]
            given[name] = torch.cat([begin[:1], (begin[1:] + block[:, None]).flatten()])
        return _unflatten(op(*given.values()), 0, size)

    return batch


def channels(names: Sequence[str]) -> BatchRule:
    """Rule of an op that treats all entries of axis 1 of some arguments alike.

    Parameters
    ----------
    names : sequence of str
        Arguments with that axis, which all results have too.

    Returns
    -------
    callable
        For :func:`equigeo.ops.runtime.declare.declare`.
    """

    def batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
        arguments, dims = share_the_rest(arguments, dims, allowed=names)
        given = dict(arguments)
        for name in names:
            if given[name] is not None:
                x = in_front(arguments[name], dims[name], size)
                given[name] = x.movedim(0, 1).flatten(1, 2)
        return _unflatten(op(*given.values()), 1, size)

    return batch


def in_front(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Move the axis of the batch to the front, or repeat what has none.

    Parameters
    ----------
    x : Tensor, (...)
        An argument.
    dim : int or None
        Its axis.
    size : int
        Of the batch.

    Returns
    -------
    Tensor, (size, ...)
        A view.
    """
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def none_of_a_batch(
    rule: BatchRule, op: Any, arguments: Mapping[str, Any], dims: Mapping[str, Any]
) -> Batched:
    """Apply a rule to a batch of none, whose results have the shapes of one problem.

    Parameters
    ----------
    rule : callable
        As :func:`blocks` makes it.
    op : callable
        The op.
    arguments : mapping of str to object
        Arguments whose axis of the batch has length zero.
    dims : mapping of str to int or None
        That axis.

    Returns
    -------
    results : Tensor or tuple of Tensor
        Empty.
    dims : int or tuple of int
        Their axes of the batch.
    """
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
    arguments: Mapping[str, Any], dims: Mapping[str, Any], *, allowed: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take one of the equal members of a batch of what must be the same for all.

    ``torch.func.stack_module_state`` makes such a batch of the tables of a layer.

    Parameters
    ----------
    arguments : mapping of str to object
        By name.
    dims : mapping of str to int or None
        Axes of the batch by argument.
    allowed : sequence of str
        Arguments that may have one.

    Returns
    -------
    arguments, dims : dict
        The same, without an axis of the batch where it is not allowed.

    Raises
    ------
    NotImplementedError
        If members differ, or cannot be compared.
    """
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
    """Compare the entries of the first axis, where values can be read."""
    return values_readable(members) and torch.equal(members, members[:1].expand_as(members))


def _rows_of(name: str, arguments: Mapping[str, Any], dims: Mapping[str, Any]) -> int:
    """Rows of an argument, its batch axis left out."""
    length: int = arguments[name].shape[1 if dims[name] == 0 else 0]
    return length


def _unflatten(results: Any, axis: int, size: int) -> Batched:
    def split(x: Tensor) -> Tensor:
        return x.unflatten(axis, (size, x.shape[axis] // size))

    if isinstance(results, Tensor):
        return split(results), axis
    return tuple(map(split, results)), (axis,) * len(results)
