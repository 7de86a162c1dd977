"""Kernels for MACE's next major version, by the draft of its kernel backends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_features, check_index, check_like, check_shape
from equigeo.graphs import EdgeIndex
from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached
from equigeo.nn.tables import IndexTables, Tables
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import ChannelwiseConv, FullyConnectedTensorProduct
from equigeo.tensor_products.products.symmetric_basis import path_basis
from equigeo.tensor_products.products.symmetric_contraction import SymmetricPolynomials

__all__ = ["MaceBackend"]

_OPS = {
    "LinearDescriptor": "linear",
    "ChannelwiseTPConvDescriptor": "channelwise_tp_conv",
    "SymmetricContractionDescriptor": "symmetric_contraction",
    "FullyConnectedTPDescriptor": "fully_connected_tp",
    "SegmentReduceDescriptor": "segment_reduce",
}


class MaceBackend:
    """Kernel backend of MACE, on CPU and CUDA.

    Its protocol is a draft of September 2026 and not released: until it is, both may change. MACE
    finds the class by the entry point ``equigeo`` of the group ``mace.kernel_backends.torch``. Each
    factory takes a descriptor, of which it reads the attributes, and returns a module:

    =========================  ==================================================================
    ``linear``                 ``features (nodes, dim_in)``
    ``channelwise_tp_conv``    ``node_features, edge_attributes, radial_weights (edges, paths,
                               channels), sender, receiver, num_nodes``; one output term per path
    ``symmetric_contraction``  ``features, element (nodes,), int64``, with weights in the reduced
                               basis
    ``fully_connected_tp``     ``features, attributes``; the second input has even scalars only
    ``segment_reduce``         ``values (rows, ...), index (rows,), int64, num_segments``; sums
    =========================  ==================================================================

    Features are flat, in the descriptor's layout. Results are deterministic and equivariant under
    O(3). What a factory does not support raises MACE's ``UnsupportedDescriptorError``
    (``NotImplementedError`` without MACE), and ``capabilities().unsupported_reason`` returns why.

    Modules with weights have ``to_canonical``, ``load_canonical`` and ``initialize_weights(seed)``,
    independent of layouts. Parameters are those of e3nn, whose training they reproduce.

    Parameters
    ----------
    folded : bool, optional
        Whether canonical weights of ``linear`` and ``fully_connected_tp`` contain the path
        normalization; drafts differ. By default as the installed ``mace_core``, and True without.

    Examples
    --------
    >>> class SymmetricContractionDescriptor:  # as of mace_core.kernels
    ...     irreps_in, irreps_out, correlation, basis = "0e+1o", "0e", 2, "reduced"
    ...     num_elements, num_features, precision, layout = 3, 8, "float32", "mul_ir"
    >>> contraction = MaceBackend().make_symmetric_contraction(SymmetricContractionDescriptor())
    >>> contraction(torch.ones(2, 32), torch.tensor([0, 2])).shape
    torch.Size([2, 8])
    >>> contraction.to_canonical()["weight"].shape
    torch.Size([3, 3, 8])
    """

    name = "equigeo"

    def __init__(self, folded: bool | None = None) -> None:
        if folded is None:
            folded = _of_mace("canonical", "linear_path_normalization", None) is None
        self.folded = folded

    def capabilities(self) -> BackendCapabilities:
        """Return what the factories support."""
        return BackendCapabilities()

    def make_linear(self, descriptor: Any) -> nn.Module:
        """Return the linear map of ``irreps_in, irreps_out, has_bias``."""
        self.capabilities().require(descriptor, self.name)
        with allow_unreached():
            layer = Linear(
                descriptor.irreps_in,
                descriptor.irreps_out,
                biases=descriptor.has_bias,
                layout=_layout(descriptor),
            )
        places, count = _canonical_places(layer.irreps_in, layer.irreps_out)
        blocks = [
            (places[block.i_in, block.i_out], block.path_weight)
            for block in layer.instructions
            if block.i_in >= 0
        ]
        return self._finish(_Weighted(layer, blocks, (count,), self.folded), descriptor)

    def make_fully_connected_tp(self, descriptor: Any) -> nn.Module:
        """Return the product of ``irreps_in1`` and scalars ``irreps_in2`` to ``irreps_out``."""
        self.capabilities().require(descriptor, self.name)
        sides = descriptor.irreps_in1, descriptor.irreps_in2, descriptor.irreps_out
        with allow_unreached():
            layer = FullyConnectedTensorProduct(*sides, layout=_layout(descriptor))
        first, second, out = layer.irreps_in1, layer.irreps_in2, layer.irreps_out
        places, count = _canonical_places(first, out)
        scalars = (count * torch.arange(second.dim, device="cpu")).split([mul for mul, _ in second])
        blocks = [
            (
                places[block.i_in1, block.i_out][:, None] + scalars[block.i_in2][:, None],
                # The coupling with a scalar is the identity over the square root of 2 l + 1.
                block.path_weight / math.sqrt(2 * out.terms[block.i_out][1][0] + 1),
            )
            for block in layer.instructions
        ]
        return self._finish(_Weighted(layer, blocks, (second.dim, count), self.folded), descriptor)

    def make_channelwise_tp_conv(self, descriptor: Any) -> nn.Module:
        """Return the convolution of ``irreps_node, irreps_edge, irreps_out, num_features``."""
        self.capabilities().require(descriptor, self.name)
        return self._finish(_Convolution(descriptor), descriptor)

    def make_symmetric_contraction(self, descriptor: Any) -> nn.Module:
        """Return polynomials of ``irreps_in`` of degrees up to ``correlation``, per channel."""
        self.capabilities().require(descriptor, self.name)
        return self._finish(_Contraction(descriptor, self.folded), descriptor)

    def make_segment_reduce(self, descriptor: Any) -> nn.Module:
        """Return the sum of rows into segments."""
        self.capabilities().require(descriptor, self.name)
        return _SegmentSum()

    def make_interaction_layer(self, descriptor: Any) -> None:
        """Return None: MACE builds layers op by op, and harmonics and radial bases itself."""

    make_spherical_harmonics = make_radial_basis = make_interaction_layer

    def _finish(self, module: nn.Module, descriptor: Any) -> nn.Module:
        return module.to(getattr(torch, descriptor.precision))


@dataclass(frozen=True)
class BackendCapabilities:
    """What the backend supports, with the attributes and methods that MACE reads."""

    ops: frozenset[str] = frozenset(_OPS.values())
    devices: frozenset[str] = frozenset({"cpu", "cuda"})
    dtypes: frozenset[str] = frozenset({"float64", "float32"})
    max_lmax: int = 0  # no limit
    layouts: frozenset[str] = frozenset({"mul_ir"})
    activation_layouts: frozenset[str] = frozenset({"mul_ir", "ir_mul"})
    native_layout: str = "mul_ir"
    bases: frozenset[str] = frozenset({"reduced"})
    supports_double_backward: bool = True
    wide_accumulation: bool = False
    spec_version: str = "1.0"

    def supports(self, descriptor: Any) -> bool:
        """Return whether the backend builds this op."""
        return self.unsupported_reason(descriptor) is None

    def unsupported_reason(self, descriptor: Any) -> str | None:
        """Return why the backend does not build this op, or None."""
        return next((text for fits, text in _requirements(descriptor) if not fits), None)

    def require(self, descriptor: Any, backend_name: str) -> None:
        """Raise MACE's error unless the backend builds this op."""
        reason = self.unsupported_reason(descriptor)
        if reason is not None:
            error = _of_mace("capabilities", "UnsupportedDescriptorError", NotImplementedError)
            raise error(f"backend {backend_name!r} does not support {descriptor}: {reason}")

    def require_double_backward(self, backend_name: str, why: str) -> None:
        """Do nothing: all ops have second derivatives."""


def _requirements(descriptor: Any) -> Iterator[tuple[bool, str]]:
    """Yield what a descriptor must satisfy, and the message otherwise."""
    kind = type(descriptor).__name__
    op = _OPS.get(kind)
    yield op is not None, f"{kind} is not one of {', '.join(_OPS)}"
    precision = descriptor.precision
    yield precision in ("float32", "float64"), f"precision {precision!r} is not float32 or float64"
    layout = _layout(descriptor)
    yield layout in ("mul_ir", "ir_mul"), f"layout {layout!r} is not 'mul_ir' or 'ir_mul'"
    if op == "channelwise_tp_conv":
        yield hasattr(descriptor, "num_features"), "num_features (channels) is missing"
        sides = descriptor.irreps_node, descriptor.irreps_edge, descriptor.irreps_out
        # Others have another order of paths in MACE, or another sign.
        natural = all(p == (-1) ** l for side in sides for _, (l, p) in Irreps(side))
        fits = natural and all(map(_single, sides))
        yield fits, "irreps must be single, with the parity of spherical harmonics"
    elif op == "symmetric_contraction":
        yield descriptor.basis == "reduced", f"basis {descriptor.basis!r} is not 'reduced'"
        fits = _single(descriptor.irreps_in) and _single(descriptor.irreps_out)
        yield fits, "irreps must be single: channels are num_features"
    elif op == "fully_connected_tp":
        second = descriptor.irreps_in2
        fits = all(ir == (0, 1) for _, ir in Irreps(second))
        yield fits, f"irreps_in2 {second!r} is not 0e alone"
    elif op == "segment_reduce":
        yield descriptor.reduction == "sum", f"reduction {descriptor.reduction!r} is not 'sum'"


def _single(irreps: str) -> bool:
    return all(mul == 1 for mul, _ in Irreps(irreps))


def _layout(descriptor: Any) -> Layout:
    return getattr(descriptor, "layout", None) or "mul_ir"


def _of_mace(module: str, name: str, default: Any) -> Any:
    """Return an attribute of MACE, None if it has none of this name, or a default without MACE."""
    try:
        return getattr(import_module(f"mace_core.kernels.{module}"), name, None)
    except ImportError:
        return default


def _canonical_places(
    first: Irreps, out: Irreps
) -> tuple[dict[tuple[int, int], Tensor], int]:  # by terms, (mul, mul_out) each
    """Return canonical positions of weights, by output and then input copies, and their number."""
    places: dict[tuple[int, int], Tensor] = {}
    count = 0
    for o, (mul_out, ir) in enumerate(out):
        fitting = [i for i, (_, other) in enumerate(first) if other == ir]
        muls = [first.terms[i][0] for i in fitting]
        rows = count + torch.arange(mul_out * sum(muls), device="cpu").view(mul_out, sum(muls))
        places |= {(i, o): part for i, part in zip(fitting, rows.T.split(muls), strict=True)}
        count += rows.numel()
    return places, count


class _Weighted(nn.Module):
    """A layer of this library with weights that are read and written in canonical form."""

    def __init__(
        self,
        layer: Linear | FullyConnectedTensorProduct,
        blocks: Sequence[tuple[Tensor, float]],  # canonical positions and factor of each block
        shape: tuple[int, ...],  # of canonical weights
        folded: bool,  # whether these contain the factors
    ) -> None:
        super().__init__()
        self.layer, self.shape = layer, shape
        places = [torch.arange(0, device="cpu"), *(part.flatten() for part, _ in blocks)]
        factors = [
            factor if folded else 1.0 for part, factor in blocks for _ in range(part.numel())
        ]
        self.positions = IndexTables(places=torch.cat(places))
        exact = torch.tensor(factors, dtype=torch.float64, device="cpu")
        self.tables = Tables(factors=exact)

    def forward(self, *features: Tensor) -> Tensor:
        return self.layer(*features)

    def to_canonical(self) -> dict[str, Tensor]:
        weight = self.layer.weight.detach()
        scaled = weight * self.tables["factors", weight.dtype]
        canonical = torch.empty_like(weight).index_copy_(0, self.positions["places"], scaled)
        bias = {"bias": self.layer.bias.detach()} if isinstance(self.layer, Linear) else {}
        return {"weight": canonical.reshape(self.shape), **bias}

    @torch.no_grad()
    def load_canonical(self, state: Mapping[str, Tensor]) -> None:
        own = self.layer.weight
        weight = _given(state, "weight", self.shape).to(own).flatten()[self.positions["places"]]
        own.copy_(weight / self.tables["factors", own.dtype])
        if isinstance(self.layer, Linear):
            self.layer.bias.copy_(_given(state, "bias", self.layer.bias.shape))

    @torch.no_grad()
    def initialize_weights(self, seed: int) -> None:
        self.layer.weight.copy_(_normal(self.layer.weight, seed))
        if isinstance(self.layer, Linear):
            self.layer.bias.zero_()


class _Convolution(nn.Module):
    """Channelwise product summed at the receivers."""

    def __init__(self, descriptor: Any) -> None:
        super().__init__()
        self.channels, layout = descriptor.num_features, _layout(descriptor)
        node = Irreps([(self.channels, ir) for _, ir in Irreps(descriptor.irreps_node)], layout)
        self.layer = ChannelwiseConv(
            node, descriptor.irreps_edge, descriptor.irreps_out, layout=layout
        )

    @property
    def num_paths(self) -> int:
        """Number of radial weights per edge and channel."""
        return len(self.layer.irreps_out.terms)

    def forward(
        self,
        node_features: Tensor,
        edge_attributes: Tensor,
        radial_weights: Tensor,
        sender: Tensor,
        receiver: Tensor,
        num_nodes: int,
    ) -> Tensor:
        check_shape(
            radial_weights, "radial_weights", (sender.shape[0], self.num_paths, self.channels)
        )
        edges = torch.stack([sender, receiver])
        return self.layer(
            node_features, edges, edge_attributes, radial_weights.flatten(1), num_nodes=num_nodes
        )


class _Contraction(nn.Module):
    """Polynomials in the canonical basis, so that weights are canonical themselves."""

    def __init__(self, descriptor: Any, folded: bool) -> None:
        super().__init__()
        layout, channels = _layout(descriptor), descriptor.num_features
        first, out = (
            tuple(ir for _, ir in Irreps(side))
            for side in (descriptor.irreps_in, descriptor.irreps_out)
        )
        bases = [
            [path_basis(first, degree, ir) for ir in out]
            for degree in range(1, descriptor.correlation + 1)
        ]
        variables = sum(2 * l + 1 for l, _ in first)
        self.polynomials = SymmetricPolynomials(variables, bases)
        self.counts = [len(basis) for row in bases for basis in row]
        self.ir_mul, self.dim_in = layout == "ir_mul", channels * variables
        self.dims = [1] * variables if self.ir_mul else [2 * l + 1 for l, _ in first]
        self.folded = folded
        self.weight = nn.Parameter(torch.zeros(descriptor.num_elements, sum(self.counts), channels))

    def forward(self, features: Tensor, element: Tensor) -> Tensor:
        check_shape(features, "features", ("nodes", self.dim_in))
        check_like(features, "features", self.weight)
        check_index("element", element, length=(features.shape[0], "the rows of features"))
        return self.polynomials(features, self.weight, element, self.dims, self.ir_mul)

    def to_canonical(self) -> dict[str, Tensor]:
        return {"weight": self.weight.detach(), "path_counts": torch.tensor(self.counts)}

    @torch.no_grad()
    def load_canonical(self, state: Mapping[str, Tensor]) -> None:
        counts = state["path_counts"].tolist()
        if counts != self.counts:
            raise ValueError(f"path_counts must be {self.counts}, got {counts}")
        self.weight.copy_(_given(state, "weight", self.weight.shape))

    @torch.no_grad()
    def initialize_weights(self, seed: int) -> None:
        self.weight.copy_(_normal(self.weight, seed))
        if not self.folded:  # the later draft draws as MACE does
            sizes = torch.tensor([n for n in self.counts for _ in range(n)])
            self.weight.div_(sizes.to(self.weight)[:, None])


class _SegmentSum(nn.Module):
    """Sum of rows into segments."""

    def forward(self, values: Tensor, index: Tensor, num_segments: int) -> Tensor:
        check_features("values", values)
        check_index("index", index, length=(values.shape[0], "the rows of values"))
        rows, *inner = values.shape
        pairs = torch.stack([torch.arange(rows, device=index.device), index])
        edges = EdgeIndex.from_edges(pairs, rows, num_segments)
        return edges.sum(values.reshape(rows, math.prod(inner))).view(num_segments, *inner)


def _given(state: Mapping[str, Tensor], name: str, shape: Sequence[int]) -> Tensor:
    """Return an entry of canonical weights, or raise if its shape is not the required one."""
    check_shape(state[name], name, tuple(shape))
    return state[name]


def _normal(like: Tensor, seed: int) -> Tensor:
    """Draw from N(0, 1) on the CPU, so that all devices have the same weights."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64)
