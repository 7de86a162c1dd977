"""Edges of a graph with the orders that forward and backward passes need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import numpy as np
import scipy
import torch
from torch import Tensor

from equigeo._core.checks import (
    TensorLike,
    as_indices,
    check_device,
    check_dtype,
    check_features,
    check_shape,
    kind_of,
)
from equigeo._core.tensors import (
    computes_in_float32,
    is_eager,
    register_structure,
    values_readable,
)
from equigeo.ops.edges.gather_sum import gather_sum_op, segment_of_rows
from equigeo.ops.edges.segment_attention import (
    attention_conv_op,
    check_operands,
    segment_attention_op,
)

MOST_NODES = 2**32  # their offsets take 32 GiB; larger indices indicate damaged data
_LEAST_COUNTED: Final = 10_000  # edges; fewer are sorted in less time
_MOST_CLOUDS: Final = 2**27  # offsets of more clouds take more than 1 GiB


@dataclass(frozen=True, eq=False, repr=False)
class EdgeIndex:
    """Directed edges, sorted by target, with their transpose; computed once.

    Messages flow from source to target, as in PyTorch Geometric. Use :meth:`from_edges` or
    :meth:`from_csr`; the constructor does not validate. Methods take and return rows of edges in
    the given order.

    Parameters
    ----------
    edge_index : Tensor, (2, edges), int64
        Row 0 sources, row 1 targets, in the given order.
    order, is_sorted
        Sorted edge ``k`` is the given edge ``order[k]``; whether ``order`` is the identity.
    source, target : Tensor, (edges,), int64
        End points in sorted order.
    ptr : Tensor, (num_targets + 1,), int64
        Sorted edges ``ptr[t] .. ptr[t + 1]`` point to ``t``.
    back_order, back_target, back_ptr : Tensor, int64
        Positions in sorted order grouped by source, their targets, and offsets of the groups.
    each : Tensor, (edges + 1,), int64
        0, 1, ..., edges: offsets of groups of one edge.

    Examples
    --------
    >>> edges = EdgeIndex.from_edges(torch.tensor([[0, 1, 2], [1, 0, 1]]))
    >>> edges.ptr.tolist(), edges.source.tolist()
    ([0, 1, 3, 3], [1, 0, 2])
    """

    edge_index: Tensor
    order: Tensor
    is_sorted: bool
    source: Tensor
    target: Tensor
    ptr: Tensor
    back_order: Tensor
    back_target: Tensor
    back_ptr: Tensor
    each: Tensor

    @classmethod
    def from_edges(
        cls, edge_index: TensorLike, num_sources: int | None = None, num_targets: int | None = None
    ) -> EdgeIndex:
        """Validate and sort an edge list (2, edges), int64: row 0 sources, row 1 targets.

        Numbers of nodes are by default one more than the largest index of both rows. In compiled
        or exported programs the range of indices is not checked.
        """
        index = as_indices(edge_index, "edge_index")
        check_shape(index, "edge_index", (2, "edges"))
        if num_sources is None or num_targets is None:
            if index.is_meta:
                raise ValueError(
                    "edge_index must have values to count nodes, got meta: give their numbers"
                )
            largest = max(int(index.max()) + 1, 0) if index.shape[1] else 0
        sources = largest if num_sources is None else num_sources
        targets = largest if num_targets is None else num_targets
        sources, targets = check_size(sources, "num_sources"), check_size(targets, "num_targets")
        check_range(index[0], sources, "sources of edge_index")
        check_range(index[1], targets, "targets of edge_index")
        # Later in-place changes by the caller have no effect.
        return cls.from_valid_edges(index.clone(), sources, targets)

    @classmethod
    def from_csr(
        cls, ptr: TensorLike, sources: TensorLike, num_sources: int | None = None
    ) -> EdgeIndex:
        """Build from a sparse matrix in CSR format: row ``t`` lists the sources of target ``t``.

        The arguments are ``m.indptr`` and ``m.indices`` of a SciPy matrix, or ``crow_indices()``
        and ``col_indices()`` of ``adj_t.to_torch_sparse_csr_tensor()`` of PyTorch Geometric.
        ``num_sources`` is by default the number of targets.

        Examples
        --------
        >>> edges = EdgeIndex.from_csr(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]))
        >>> edges.edge_index.tolist()
        [[1, 0, 1], [0, 1, 1]]
        """
        offsets, source = as_indices(ptr, "ptr"), as_indices(sources, "sources")
        check_shape(source, "sources", ("edges",))
        check_offsets(offsets, len(source), "targets")
        count = len(offsets) - 1
        size = count if num_sources is None else num_sources
        size = check_size(size, "num_sources")
        check_range(source, size, "sources")
        target = segment_of_rows(offsets[1:], len(source))
        return cls.from_valid_edges(torch.stack([source, target]), size, count)

    @classmethod
    def from_valid_edges(cls, edge_index: Tensor, num_sources: int, num_targets: int) -> EdgeIndex:
        """Sort edges that are known to be in range; see :meth:`from_edges`. They are not copied."""
        source, target = edge_index[0], edge_index[1]
        # A program that is recorded must not depend on values, and sorts in any case.
        is_sorted = values_readable(target) and bool((target[1:] >= target[:-1]).all())
        each = torch.arange(target.shape[0] + 1, device=target.device)
        if is_sorted:
            order = each[:-1]
        else:
            order = stable_order(target, num_targets)
            source, target = source[order], target[order]
        back_order = stable_order(source, num_sources)
        return cls(
            edge_index=edge_index,
            order=order,
            is_sorted=is_sorted,
            source=source.contiguous(),
            target=target.contiguous(),
            ptr=_offsets(target, num_targets),
            back_order=back_order,
            back_target=target[back_order],
            back_ptr=_offsets(source, num_sources),
            each=each,
        )

    @classmethod
    def disjoint_union(cls, parts: Sequence[EdgeIndex]) -> EdgeIndex:
        """Return the block-diagonal union of at least one graph, without sorting again.

        Examples
        --------
        >>> one = EdgeIndex.from_edges(torch.tensor([[0, 1], [1, 0]]))
        >>> EdgeIndex.disjoint_union([one, one]).edge_index.tolist()
        [[0, 1, 2, 3], [1, 0, 3, 2]]
        """
        if not parts:
            raise ValueError("a union needs at least one graph, got none")
        device = parts[0].order.device
        sources = Shift([part.num_sources for part in parts])
        targets = Shift([part.num_targets for part in parts])
        edges = Shift([part.num_edges for part in parts])
        shifts = torch.tensor([sources.starts, targets.starts], device=device)
        edge_index = torch.cat(
            [part.edge_index + shifts[:, i, None] for i, part in enumerate(parts)], dim=1
        )
        each = torch.arange(edges.total + 1, device=device)
        is_sorted = all(part.is_sorted for part in parts)
        order, (source, target) = each[:-1], edge_index.unbind()
        if not is_sorted:
            order = edges.join([part.order for part in parts])
            source = sources.join([part.source for part in parts])
            target = targets.join([part.target for part in parts])
        return cls(
            edge_index=edge_index,
            order=order,
            is_sorted=is_sorted,
            source=source,
            target=target,
            ptr=edges.join_offsets([part.ptr for part in parts]),
            back_order=edges.join([part.back_order for part in parts]),
            back_target=targets.join([part.back_target for part in parts]),
            back_ptr=edges.join_offsets([part.back_ptr for part in parts]),
            each=each,
        )

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return self.edge_index.shape[1]

    @property
    def num_sources(self) -> int:
        """Number of nodes that edges may start from."""
        return self.back_ptr.shape[0] - 1

    @property
    def num_targets(self) -> int:
        """Number of nodes that edges may point to."""
        return self.ptr.shape[0] - 1

    def __repr__(self) -> str:
        return (
            f"EdgeIndex(edges={self.num_edges}, sources={self.num_sources}, "
            f"targets={self.num_targets})"
        )

    def to(self, device: torch.device | str) -> EdgeIndex:
        """Move every index to a device."""
        moved: dict[str, Any]
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)

    @computes_in_float32
    def attend(self, values: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Average source rows into targets, weighted by a softmax over the edges of each target.

        Parameters
        ----------
        values : Tensor, (num_sources, heads, channels), floating
            Rows of the sources.
        logits : Tensor, (edges, heads), floating
            Scores.

        Returns
        -------
        out : Tensor, (num_targets, heads, channels)
            Zero for targets without edges.
        attention : Tensor, (edges, heads)
            Weights; they sum to one per target and head.
        """
        self._check("values", values, (self.num_sources, "heads", "channels"))
        self._check("logits", logits, (self.num_edges, values.shape[1]))
        check_dtype("logits", logits, "values", values)
        logits = logits if self.is_sorted else logits[self.order]
        out, attention = segment_attention_op(values, logits, *self._lists())
        return out, self._as_given(attention)

    @computes_in_float32
    def attend_linear(
        self, x: Tensor, logits: Tensor, weight: Tensor, self_weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Apply :meth:`attend` to linearly mapped rows without storing these.

        Parameters
        ----------
        x : Tensor, (num_sources, channels), floating
            Rows of the sources.
        logits : Tensor, (edges, heads), floating
            Scores.
        weight, self_weight : Tensor, (heads * channels_out, channels), floating
            Matrices of all heads, for sources and, optionally, for the targets themselves.

        Returns
        -------
        out, attention : Tensor, (num_targets, heads * channels_out) and (edges, heads)
            See :meth:`attend`.
        """
        check_shape(x, "x", (self.num_sources, "channels"))
        check_shape(logits, "logits", (self.num_edges, "heads"))
        features = check_operands(x, logits, weight, self_weight, self.ptr)
        check_device(**features, edge_index=self.source)
        return self.attend_valid(x, logits, weight, self_weight)

    @computes_in_float32
    def attend_valid(
        self, x: Tensor, logits: Tensor, weight: Tensor, self_weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Apply :meth:`attend_linear` to arguments that are known to fit."""
        logits = logits if self.is_sorted else logits[self.order]
        out, attention = attention_conv_op(x, logits, weight, self_weight, *self._lists())
        return out, self._as_given(attention)

    @computes_in_float32
    def add_ends(self, at_source: Tensor, at_target: Tensor) -> Tensor:
        """Add the rows of both ends (nodes, channels) of every edge, (edges, channels).

        Gradients are summed in a fixed order.
        """
        self._check("at_source", at_source, (self.num_sources, "channels"))
        self._check("at_target", at_target, (self.num_targets, "channels"))
        return self.add_valid_ends(at_source, at_target)

    @computes_in_float32
    def add_valid_ends(self, at_source: Tensor, at_target: Tensor) -> Tensor:
        """Apply :meth:`add_ends` to rows that are known to fit."""
        each = self.each
        from_source = gather_sum_op(at_source, self.source, each, self.back_order, self.back_ptr)
        from_target = gather_sum_op(at_target, self.target, each, each[:-1], self.ptr)
        return self._as_given(from_source + from_target)

    def _lists(self) -> tuple[Tensor, ...]:
        return self.source, self.ptr, self.target, self.back_order, self.back_ptr

    def _as_given(self, x: Tensor) -> Tensor:
        return x if self.is_sorted else torch.empty_like(x).index_copy(0, self.order, x)

    @computes_in_float32
    def sum(self, x: Tensor) -> Tensor:
        """Sum source rows (num_sources, channels) into targets, (num_targets, channels)."""
        self._check("x", x, (self.num_sources, "channels"))
        return gather_sum_op(x, self.source, self.ptr, self.back_target, self.back_ptr)

    def _check(self, name: str, x: Tensor, axes: tuple[int | str, ...]) -> None:
        """Raise for features of another shape, or of a dtype or device that ops do not support."""
        check_shape(x, name, axes)
        check_features(name, x)
        check_device(**{name: x}, edge_index=self.source)


register_structure(EdgeIndex, "equigeo.graphs.EdgeIndex", {"is_sorted": bool})


class Shift:
    """Running offsets of the parts of a union."""

    def __init__(self, sizes: list[int]) -> None:
        *self.starts, self.total = accumulate(sizes, initial=0)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate indices, each part shifted by its offset."""
        return torch.cat([part + start for part, start in zip(parts, self.starts, strict=True)])

    def join_offsets(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate offsets, each part shifted and without its first one but for part 0."""
        shifted = [part[1:] + start for part, start in zip(parts, self.starts, strict=True)]
        return torch.cat([parts[0][:1], *shifted])


def count_indices(index: Tensor, size: int) -> Tensor:
    """Count each number below ``size`` in a vector of indices, (size,)."""
    # The length of bincount depends on values, which export does not support.
    if not is_eager(index):
        return index.new_zeros(size).index_add(0, index, torch.ones_like(index))
    counts = torch.bincount(index, minlength=size)
    if len(counts) > size:
        raise IndexError(f"indices must be below {size}, got {len(counts) - 1}")
    return counts


def _offsets(index: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(count_indices(index, size).cumsum(0), (1, 0))


def check_offsets(
    ptr: Tensor,  # (groups + 1,); values are not read during compilation
    rows: int,  # last offset
    of: str,  # name of the groups, for the message
) -> None:
    """Raise unless ``ptr`` holds the offsets of consecutive groups of rows."""
    if ptr.ndim != 1 or len(ptr) < 1:
        raise ValueError(f"ptr must be ({of} + 1,), got {tuple(ptr.shape)}")
    if not values_readable(ptr):
        return
    if bool(ptr[0] != 0) or bool(ptr[-1] != rows) or bool((ptr.diff() < 0).any()):
        raise ValueError(f"ptr must start at 0, never fall and end at {rows}")


def stable_order(
    numbers: Tensor,  # (n,) in [0, size)
    size: int,
) -> Tensor:
    """Return the stable order of integers that are mostly smaller than their number."""
    if not is_eager(numbers) or len(numbers) < _LEAST_COUNTED or size > 4 * len(numbers):
        return torch.argsort(numbers, stable=True)
    low, high = numbers.aminmax()
    if int(low) < 0 or int(high) >= size:  # SciPy would write outside of its memory
        raise IndexError(f"indices must lie in [0, {size}), got {int(low)} to {int(high)}")
    # SciPy transposes a matrix with one entry per row by counting, which takes a sixth of the time.
    entries = np.ones(len(numbers), np.bool_), numbers.numpy(), np.arange(len(numbers) + 1)
    columns = scipy.sparse.csc_array(entries, shape=(size, len(numbers)))
    return torch.from_numpy(columns.tocsr().indices.astype(np.int64))


def check_size(size: Any, name: str) -> Any:
    """Validate a number of nodes and return it as an int of Python or PyTorch."""
    if not isinstance(size, (int, np.integer, torch.SymInt)):
        raise TypeError(f"{name} must be an integer, got {kind_of(size)}")
    if size < 0:
        raise ValueError(f"{name} must not be negative, got {size}")
    if size >= MOST_NODES:
        raise ValueError(f"{name} must be below 2^32, got {size}")
    return int(size) if isinstance(size, np.integer) else size


def check_range(index: Tensor, size: int, what: str) -> None:
    """Raise for indices outside [0, size), as far as values can be read."""
    if values_readable(index) and len(index) and (int(index.min()) < 0 or int(index.max()) >= size):
        raise ValueError(
            f"{what} must lie in [0, {size}), "
            f"got values from {int(index.min())} to {int(index.max())}"
        )


def cloud_offsets(
    rows: int,  # number of points of all clouds
    batch: TensorLike | None = None,  # (rows,) ascending; a missing number is an empty cloud
    ptr: TensorLike | None = None,  # (clouds + 1,)
) -> Tensor | None:
    """Return the offsets of clouds (clouds + 1,), given either form; None if neither is given."""
    if batch is not None and ptr is not None:
        raise ValueError("batch and ptr describe the same: give one of them, got both")
    if ptr is not None:
        offsets = as_indices(ptr, "ptr")
        check_offsets(offsets, rows, "clouds")
        return offsets
    if batch is None:
        return None
    numbers = as_indices(batch, "batch")
    check_shape(numbers, "batch", (rows,))
    if numbers.is_meta:
        raise ValueError("batch must have values, got meta: give ptr, whose length is known")
    clouds = int(numbers[-1]) + 1 if rows else 0
    if clouds > _MOST_CLOUDS:
        raise ValueError(f"batch must number at most {_MOST_CLOUDS} clouds, got {clouds}")
    is_read = rows and not torch.compiler.is_compiling()
    if is_read and (int(numbers[0]) < 0 or bool((numbers.diff() < 0).any())):
        raise ValueError(
            "batch must be sorted and not negative: sort all rows by batch.argsort(stable=True)"
        )
    return torch.searchsorted(numbers, torch.arange(clouds + 1, device=numbers.device))
