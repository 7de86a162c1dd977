"""Message passing that rotates edges onto an axis and mixes features order by order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from equigeo._core.checks import TensorLike, check_shape, check_tensor, checked_integer
from equigeo._core.config import Config, check_config, override
from equigeo._core.tensors import computes_in_float32, plain_tensors, rounded_once
from equigeo.graphs import EdgeIndex
from equigeo.groups import SO
from equigeo.nn.module import check_reached, irreps_argument
from equigeo.nn.state import SavedOptions
from equigeo.nn.tables import IndexTables
from equigeo.nn.weights import check_operands
from equigeo.ops import SO2Table, so2_conv
from equigeo.reps import Irreps, Representation
from equigeo.tensor_products.instructions import largest_degree
from equigeo.tensor_products.products.convolution import op_graph, sorted_edges, sources_of

Features = Tensor | tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class SO2Config(Config):
    """Options of :class:`SO2Conv`, documented there."""

    title = "the configuration of a convolution by orders"

    group: Literal["O3", "SO3"] = "O3"
    modulation: Literal["order", "degree"] | None = None
    bias: bool = False
    sources: Literal["source", "both"] = "source"
    layout: Literal["mul_ir", "ir_mul"] = "mul_ir"
    internal_weights: bool = True


@final
class SO2Conv(SavedOptions):
    r"""Sum a Clebsch-Gordan product over neighbors, computed in the frames of the edges.

    .. math:: z_t = \sum_{e: s \to t} c_e\, D(u_e)^T \bigl(W (s_e \odot D(u_e)\, x_s) + b\bigr)

    The convolution of eSCN (Passaro and Zitnick, ICML 2023), EquiformerV2 and eSEN. In the frame of
    an edge, whose y axis it is, the harmonics of the edge have one nonzero component, and a product
    with weights for all pairs of channels is one matrix per order m. With all orders and without
    modulation this is the fully connected product with harmonics of all degrees, odd paths
    included. Nothing is stored per edge, and gradients by positions are exact in every direction,
    the poles included. Equivariant under O(3), or SO(3) if ``group="SO3"``.

    Parameters
    ----------
    irreps_in, irreps_out : str, Irreps or e3nn.o3.Irreps
        Of degrees up to 10; several terms may have one degree.
    num_hidden : int, optional
        Compute the modulation :math:`h_e R / \sqrt{H}` inside the op from H invariant numbers per
        edge, the argument ``weights``. ``modulation`` is then "order" by default.
    mmax : int, optional
        Largest order that is mixed, by default all; dropping others keeps the symmetry.
    group : {"O3", "SO3"}
        "O3" allows the weights that parities allow: real parts between irreps that are both
        natural, p = (-1)^l, or both not, imaginary parts between one of each. "SO3" ignores
        parities, as fairchem does; energies of mirror images then differ.
    modulation : {None, "order", "degree"}
        Factors per edge that multiply its source in the frame: none, one per order of each copy,
        or one per copy.
    bias : bool
        Whether order 0 of the frame has a bias; with "O3" only natural irreps do.
    sources : {"source", "both"}
        Whether an edge sends the features of its source, or those of source and target side by
        side, the channels of the source first in each term.
    layout : {"mul_ir", "ir_mul"}
    internal_weights : bool
        Whether the module owns its matrices; otherwise ``forward`` takes them.

    Attributes
    ----------
    mixing : Parameter, (mixing_numel,)
        Elements of all matrices, drawn from N(0, 1); None without internal weights.
    bias : Parameter
        One per copy that may have one, initialized to zero; None without bias.
    radial : Parameter, (num_hidden, numbers of the modulation)
        R, drawn from N(0, 1) as the last layer of ``equigeo.nn.RadialMLP``; None by default.

    Examples
    --------
    >>> conv = SO2Conv("8x0e + 8x1o + 8x2e", "4x0e + 4x1o", mmax=1, modulation="order")
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    >>> x, edge_vec, weights = torch.randn(3, 72), torch.randn(3, 3), torch.rand(3, 40)
    >>> conv(x, edge_index, edge_vec, weights).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        irreps_in: Any,
        irreps_out: Any,
        *,
        num_hidden: int | None = None,
        mmax: int | None = None,
        config: SO2Config | None = None,
        **changes: Any,
    ) -> None:
        super().__init__()
        config = SO2Config() if config is None else config
        check_config(config, SO2Config)
        if num_hidden is not None:
            num_hidden = checked_integer("num_hidden", num_hidden, 1)
            if config.modulation is None:
                changes = {"modulation": "order"} | changes
        config = override(config, changes)
        self.num_hidden, self.config, self.layout = num_hidden, config, config.layout
        self.irreps_in = irreps_argument("irreps_in", irreps_in, self.layout)
        self.irreps_out = irreps_argument("irreps_out", irreps_out, self.layout)
        top = min(largest_degree(self.irreps_in), largest_degree(self.irreps_out))
        self.mmax = top if mmax is None else min(checked_integer("mmax", mmax, 0), top)
        both = config.sources == "both"
        self.table, self._end = self._table(2 if both else 1), self._table(1)
        self.weights = SO2Weights(self.table)
        reached = _reached_terms(self.table)
        check_reached("SO2Conv", [self.irreps_in], self.irreps_out, reached, stacklevel=2)
        self._columns = IndexTables(**(_columns_of_ends(self.table) if both else {}))
        self._make_parameters()

    @computes_in_float32
    def forward(
        self,
        x: Features,
        edge_index: EdgeIndex | TensorLike,
        edge_vec: Tensor,
        weights: Tensor | None = None,
        *,
        mixing: Tensor | None = None,
        envelope: Tensor | None = None,
        num_nodes: int | None = None,
    ) -> Tensor:
        """Convolve the features of a graph; ``x`` and edges as for :class:`ChannelwiseConv`.

        Parameters
        ----------
        edge_vec : Tensor, (edges, 3)
            Of any length; an edge of length zero has no direction and sends nothing.
        weights : Tensor, (edges, weight_numel) or (edges, num_hidden), optional
            Invariant modulation factors, or numbers that they are computed from.
        mixing : Tensor, (mixing_numel,), optional
            Required if and only if the module has no weights of its own.
        envelope : Tensor, (edges,), optional
            Factor per message, such as a smooth cutoff.
        """
        width = self.weight_numel if self.num_hidden is None else self.num_hidden
        if (weights is None) != (self.config.modulation is None):
            raise ValueError(
                f"weights must be (edges, {width}) for modulation "
                f"{self.config.modulation!r}, got {None if weights is None else 'a tensor'}"
            )
        if weights is not None:
            check_tensor("weights", weights)
            check_shape(weights, "weights", ("edges", width))
        ends, edges = self._ends(x, edge_index, num_nodes)
        check_tensor("edge_vec", edge_vec)
        check_shape(edge_vec, "edge_vec", (edges.num_edges, 3))
        if envelope is not None:
            check_tensor("envelope", envelope)
            check_shape(envelope, "envelope", (edges.num_edges,))
        numbers = self._own_numbers(mixing)

        def convolve(*operands: Any) -> Tensor:
            features, others = operands[: len(ends)], operands[len(ends) :]
            return self._sum_ends(features, edges, *others)

        others = [edge_vec, numbers, self.bias, weights, self.radial, envelope]
        total: Tensor = rounded_once(convolve, [*ends, *others])
        return self.irreps_out.with_layout("ir_mul").to_layout(total, self.layout)

    @property
    def weight_numel(self) -> int:
        """Number of modulation factors per edge."""
        return 0 if self.config.modulation is None else self.table.scale_numel

    @property
    def mixing_numel(self) -> int:
        """Return the number of elements of the mixing matrices."""
        return self.weights.numel

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Return the representations of node features and edge vectors."""
        return self._represent(self.irreps_in), self._represent(Irreps("1o", self.layout))

    @property
    def rep_out(self) -> Representation:
        """Return the representation of the output."""
        return self._represent(self.irreps_out)

    def matrices(self, mixing: Tensor | None = None) -> Tensor:
        """Return the matrices of orders, flat as :func:`equigeo.ops.so2_conv` takes them.

        By order, (copies out, copies in), the imaginary part behind the real one. ``mixing``
        (mixing_numel,) is required if the module has no weights of its own.
        """
        return self.weights(self._own_numbers(mixing))

    @torch.no_grad()
    def set_matrices(self, matrices: Tensor) -> None:
        """Set the weights from :meth:`matrices`, without entries that parities forbid."""
        if self.mixing is None:
            raise ValueError("the module has no weights of its own, which could be set")
        check_shape(matrices, "matrices", (self.table.weight_numel,))
        self.mixing.copy_(self.weights.numbers_of(matrices.to(self.mixing.device)))

    def _saved_options(self) -> Mapping[str, Any]:
        # Earlier versions could also save weights of paths.
        return {"weights": "orders", "mmax": self.mmax}

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per edge for rotations and matrices."""
        turned = sum(
            mul * (2 * l + 1) * (2 * min(l, self.mmax) + 1)
            for mul, l, _ in (*self.table.terms_in, *self.table.terms_out)
        )
        return turned + sum(n * k * (2 if m else 1) for m, n, k in self.table.matrices)

    def extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}, mmax={self.mmax}, group={self.config.group}"

    def _table(self, ends: int) -> SO2Table:
        by_parity = self.config.group == "O3"
        terms_in, terms_out = (
            tuple((copies * mul, l, by_parity and p != (-1) ** l) for mul, (l, p) in irreps.terms)
            for irreps, copies in ((self.irreps_in, ends), (self.irreps_out, 1))
        )
        by_order = self.config.modulation != "degree"
        return SO2Table(terms_in, terms_out, self.mmax, not by_parity, by_order)

    def _make_parameters(self) -> None:
        self.mixing = nn.Parameter(torch.randn(self.mixing_numel))
        if not self.config.internal_weights:
            self.register_parameter("mixing", None)
        with plain_tensors():
            positions = (~_swapped(self.table.terms_out)).nonzero().flatten()
        self._biased = IndexTables(rows=positions)
        self.register_parameter("bias", None)
        if self.config.bias:
            self.bias = nn.Parameter(torch.zeros(len(positions)))
        self.register_parameter("radial", None)
        if self.num_hidden is not None:
            self.radial = nn.Parameter(torch.randn(self.num_hidden, self.table.scale_numel))

    def _represent(self, irreps: Irreps) -> Representation:
        return irreps if self.config.group == "O3" else irreps.restrict(SO(3))

    def _own_numbers(self, mixing: Tensor | None) -> Tensor:
        """Return the mixing weights of the module, or the given ones if it has none."""
        if (mixing is None) == (self.mixing is None):
            raise ValueError(
                "mixing is required if the module has no weights of its own, and rejected otherwise"
            )
        numbers: Tensor = self.mixing if mixing is None else mixing
        check_shape(numbers, "mixing", (self.mixing_numel,))
        return numbers

    def _sum_ends(
        self,
        ends: Sequence[Tensor],
        edges: EdgeIndex,
        edge_vec: Tensor,
        numbers: Tensor,
        bias: Tensor | None,
        scale: Tensor | None,
        radial: Tensor | None,
        envelope: Tensor | None,
    ) -> Tensor:
        """Sum over the edge ends that send messages, in the layout of the op."""
        matrices: Tensor = self.weights(numbers)
        if bias is not None:
            dense = bias.new_zeros(self.table.widths_out[0])
            bias = dense.index_copy(0, self._biased["rows"], bias)
        if radial is not None:
            radial = radial * len(radial) ** -0.5  # of unit variance
        graphs = [op_graph(edges)]
        if len(ends) == 2:
            every = edges.each[:-1]
            graphs.append((edges.target, edges.ptr, edges.order, edges.target, every, edges.ptr))
        messages = []
        for k, (features, graph) in enumerate(zip(ends, graphs, strict=True)):
            weight, scales, maps = self._of_end(matrices, scale, radial, k)
            options = {"scale": scales, "radial": maps, "envelope": envelope}
            rows = self.irreps_in.to_layout(features, "ir_mul")
            once = bias if k == 0 else None
            messages.append(
                so2_conv(rows, edge_vec, weight, graph, self._end, bias=once, **options)
            )
        return messages[0] if len(messages) == 1 else messages[0] + messages[1]

    def _ends(
        self, x: Features, edge_index: EdgeIndex | TensorLike, num_nodes: int | None
    ) -> tuple[list[Tensor], EdgeIndex]:
        """Return source features, target features if they are sent too, and the edges."""
        both = self.config.sources == "both"
        if isinstance(x, (tuple, list)):
            targets = x[1] if len(x) == 2 else None
            x, num_nodes = sources_of(x, num_nodes)
        else:
            check_tensor("x", x)
            targets = x
        if both and targets is None:
            raise ValueError("x must be (sources, targets) with features of both, got one of them")
        ends = [x] if not both or targets is None else [x, targets]
        named = zip(("x", "x of targets"), ends, strict=False)
        check_operands({name: (value, self.irreps_in.dim) for name, value in named})
        if any(value.ndim != 2 for value in ends):
            raise ValueError(f"x must be (nodes, components), got {tuple(ends[0].shape)}")
        edges = sorted_edges(x, edge_index, num_nodes)
        if both and len(ends[1]) != edges.num_targets:
            raise ValueError(f"x of targets must have {edges.num_targets} rows, got {len(ends[1])}")
        return ends, edges

    def _of_end(
        self, matrices: Tensor, scale: Tensor | None, radial: Tensor | None, end: int
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return matrices and modulation of one end of an edge."""
        if self.config.sources == "source":
            return matrices, scale, radial
        sizes = [rows * columns for _, rows, columns in self.table.matrices]
        weight = torch.cat([
            part.view(rows, columns).index_select(1, self._columns[f"order_{m}_{end}"]).flatten()
            for part, (m, rows, columns) in zip(
                matrices.split(sizes), self.table.matrices, strict=True
            )
        ])  # fmt: skip
        modulated = self._columns[f"scale_{end}"]
        if radial is not None:
            return weight, scale, radial.index_select(1, modulated)
        return weight, None if scale is None else scale.index_select(1, modulated), None


class SO2Weights(nn.Module):
    """Scale parameters for unit output variance and arrange them as matrices of orders."""

    def __init__(self, table: SO2Table) -> None:
        super().__init__()
        self.table = table
        self._runs, allowed = _order_runs(table)
        self.numel = sum(count for count, _ in self._runs)
        self._is_dense = self.numel == table.weight_numel
        self._allowed = IndexTables(**({} if self._is_dense else {"allowed": allowed}))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the matrices of :func:`equigeo.ops.so2_conv`, (table.weight_numel,)."""
        parts = numbers.split([count for count, _ in self._runs])
        scaled = [part * scale for part, (_, scale) in zip(parts, self._runs, strict=True)]
        found = torch.cat([numbers[:0], *scaled])
        if self._is_dense:
            return found
        empty = found.new_zeros(self.table.weight_numel)
        return empty.index_copy(0, self._allowed["allowed"], found)

    def numbers_of(self, matrices: Tensor) -> Tensor:
        """Return the parameters of given matrices, without forbidden entries."""
        found = matrices
        if not self._is_dense:
            found = matrices.index_select(0, self._allowed["allowed"])
        parts = found.split([count for count, _ in self._runs])
        divided = [part / scale for part, (_, scale) in zip(parts, self._runs, strict=True)]
        return torch.cat([matrices[:0], *divided])


@plain_tensors()
def _order_runs(table: SO2Table) -> tuple[list[tuple[int, float]], Tensor]:
    """Return lengths and factors of runs of parameters, and positions of all matrix entries."""
    runs: list[tuple[int, float]] = []
    positions = []
    offset = 0
    for m, rows, columns in table.matrices:
        if m == 0 and not table.complex_weights:
            # A row of order 0 has the columns that parity allows.
            allowed = _swapped(table.terms_out)[:, None] == _swapped(table.terms_in)
            runs += [(width, max(1, width) ** -0.5) for width in allowed.sum(1).tolist()]
            positions.append(allowed.flatten().nonzero().flatten())
        else:
            # Two components of unit variance come from real and imaginary parts.
            terms = columns * (2 if m > 0 and table.complex_weights else 1)
            runs.append((rows * columns, max(1, terms) ** -0.5))
            positions.append(torch.arange(offset, offset + rows * columns))
        offset += rows * columns
    return runs, torch.cat(positions)


def _swapped(terms: Sequence[tuple[int, int, bool]]) -> Tensor:
    """Return which copies are swapped, (copies,)."""
    return torch.tensor(
        [swapped for mul, _, swapped in terms for _ in range(mul)], dtype=torch.bool
    )


def _reached_terms(table: SO2Table) -> set[int]:
    """Return the output terms with a path: degree 0 alone allows only one parity."""
    return {
        n
        for n, (_, l3, out_swapped) in enumerate(table.terms_out)
        for _, l1, swapped in table.terms_in
        if table.complex_weights or swapped == out_swapped or min(l1, l3) > 0
    }


@plain_tensors()
def _columns_of_ends(table: SO2Table) -> dict[str, Tensor]:
    """Return the matrix columns and modulation factors of sources and of targets."""
    found: dict[str, Tensor] = {}
    for end in (0, 1):
        scales, offset = [], 0
        for m in range(table.mmax + 1):
            picked, at = [torch.arange(0)], 0
            for mul, l, _ in table.terms_in:
                if l >= m:
                    half = mul // 2
                    picked.append(torch.arange(at + end * half, at + (end + 1) * half))
                    at += mul
            found[f"order_{m}_{end}"] = torch.cat(picked)
            scales.append(offset + found[f"order_{m}_{end}"])
            offset += at
        found[f"scale_{end}"] = torch.cat(scales if table.by_order else scales[:1])
    return found
