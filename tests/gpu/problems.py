"""Ops at the sizes of models, each beside a peer that computes the same."""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import so2_conv as orders
from bench.op_calls import calls_of
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop import cuequivariance, to_e3nn
from equigeo.ops.runtime.declare import declared, reference_of

Problem = tuple[dict[str, Callable[..., Tensor]], list[Tensor]]
"""What is compared, by name, and what all of it takes."""

IRREPS = ("128x0e + 128x1o + 128x2e", "0e + 1o + 2e + 3o", "0e + 1o + 2e + 3o")  # mace-large
NEIGHBOURS = 32
ELEMENTS = 10


def channelwise_product(device: torch.device, edges: int) -> Problem:
    product = tp.ChannelwiseTensorProduct(*IRREPS).to(device)
    return {"ours": product, "e3nn": to_e3nn(product)}, operands(three(product, edges), device)


def channelwise_product_ir_mul(device: torch.device, edges: int) -> Problem:
    product = tp.ChannelwiseTensorProduct(*IRREPS, layout="ir_mul").to(device)
    theirs = cue_channelwise(device)
    return {"ours": product, "cuEquivariance": theirs}, operands(three(product, edges), device)


def channelwise_conv(device: torch.device, edges: int) -> Problem:
    conv, theirs = tp.ChannelwiseConv(*IRREPS), to_e3nn(tp.ChannelwiseTensorProduct(*IRREPS))
    conv, theirs = conv.to(device), theirs.to(device)
    index, graph = random_graph(device, edges)
    nodes = graph.num_targets

    def by_messages(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        messages = theirs(x.index_select(0, index[0]), y, w)
        return x.new_zeros(nodes, messages.shape[1]).index_add(0, index[1], messages)

    calls = {"ours": lambda x, y, w: conv(x, graph, y, w), "e3nn": by_messages}
    return calls, operands(three(conv, edges, nodes), device)


def channelwise_conv_ir_mul(device: torch.device, edges: int) -> Problem:
    conv = tp.ChannelwiseConv(*IRREPS, layout="ir_mul").to(device)
    theirs = cue_channelwise(device)
    index, graph = random_graph(device, edges)
    nodes = graph.num_targets
    calls = {
        "ours": lambda x, y, w: conv(x, graph, y, w),
        "cuEquivariance": lambda x, y, w: theirs(
            x, y, w, indices_1=index[0], indices_out=index[1], size_out=nodes
        ),
    }
    return calls, operands(three(conv, edges, nodes), device)


def fully_connected_product(device: torch.device, edges: int) -> Problem:
    product = tp.FullyConnectedTensorProduct("16x0e + 16x1o", "0e + 1o", "16x0e + 16x1o")
    product = product.to(device)
    shapes = [(edges, product.irreps_in1.dim), (edges, product.irreps_in2.dim)]
    return {"ours": product, "e3nn": to_e3nn(product)}, operands(shapes, device)


def spherical_harmonics(device: torch.device, edges: int) -> Problem:
    ours = tp.SphericalHarmonics("0e + 1o + 2e + 3o", normalize=True).to(device)
    return {"ours": ours, "e3nn": to_e3nn(ours)}, operands([(32 * edges, 3)], device)


def symmetric_contraction(device: torch.device, edges: int) -> Problem:
    import cuequivariance as cue
    import cuequivariance_torch as cuet
    from cuequivariance.group_theory.experimental.e3nn import O3_e3nn

    ins, outs = "128x0e + 128x1o + 128x2e", "128x0e + 128x1o"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = cuet.SymmetricContraction(
            *(cue.Irreps(O3_e3nn, text) for text in (ins, outs)), contraction_degree=3,
            num_elements=ELEMENTS, layout=cue.ir_mul, original_mace=True,
            method=cue_method(device), dtype=torch.float32, math_dtype=torch.float32,
        )  # fmt: skip
    theirs = theirs.to(device)
    ours = cuequivariance.convert(theirs)
    nodes = max(2, edges // NEIGHBOURS)
    generator = torch.Generator().manual_seed(0)
    element = torch.randint(ELEMENTS, (nodes,), generator=generator).to(device)
    chosen = element.int()
    calls = {"ours": lambda x: ours(x, element), "cuEquivariance": lambda x: theirs(x, chosen)}
    return calls, operands([(nodes, ours.irreps_in.dim)], device)


def so2_conv(device: torch.device, edges: int) -> Problem:
    """As in UMA: degrees up to 4, orders up to 2, 128 channels, bias and modulation by orders."""
    size = 4, 2, 128
    index, graph = random_graph(device, edges)
    graph = EdgeIndex.from_edges(  # the peer takes edges in the order of their targets
        index[:, index[1].argsort(stable=True)], graph.num_sources, graph.num_targets
    )
    ours, conv = orders.equigeo(*size, graph, torch.float32)
    shapes = [x.shape for x in orders.operands(*size, graph, torch.float32)]
    inputs = operands([tuple(shape) for shape in shapes], device)
    if find_spec("fairchem") and (found := find_spec("fairchem.core")) and found.origin:
        orders.import_fairchem(Path(found.origin).parents[2])
        theirs, layer = orders.fairchem(*size, graph, torch.float32)
        orders.take_weights(conv, layer.requires_grad_(False))
        return {"ours": ours, "fairchem-core": theirs}, inputs
    arguments, _ = calls_of(ours, inputs)["so2_conv"]
    reference = reference_of("so2_conv")

    def composed(x: Tensor, vectors: Tensor, scale: Tensor) -> Tensor:
        return reference(*{**arguments, "x": x, "vectors": vectors, "scale": scale}.values())

    return {"ours": ours, "PyTorch": composed}, inputs


def gather_sum(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.back_target, graph.back_ptr)
    return beside_reference("gather_sum", rest), operands([(graph.num_sources, 128)], device)


def segment_attention(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.target, graph.back_order, graph.back_ptr)
    calls = beside_reference("segment_attention", rest)
    firsts = {name: (lambda *x, call=call: call(*x)[0]) for name, call in calls.items()}
    return firsts, operands([(graph.num_sources, 4, 32), (edges, 4)], device)


PROBLEMS: dict[str, Callable[[torch.device, int], Problem]] = {
    "channelwise_product, mace-large": channelwise_product,
    "channelwise_product, mace-large, ir_mul": channelwise_product_ir_mul,
    "channelwise_conv, mace-large": channelwise_conv,
    "channelwise_conv, mace-large, ir_mul": channelwise_conv_ir_mul,
    "fully_connected_product, 16x0e + 16x1o": fully_connected_product,
    "spherical_harmonics, degrees 0 to 3": spherical_harmonics,
    "symmetric_contraction, 128 channels, ir_mul": symmetric_contraction,
    "so2_conv, degrees up to 4, orders up to 2": so2_conv,
    "gather_sum, 128 channels": gather_sum,
    "segment_attention, 4 heads of 32": segment_attention,
}


def cue_channelwise(device: torch.device) -> Any:
    """Their product with the same irreps, and the weights in the same order."""
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    ins = (cue.Irreps("O3", text) for text in IRREPS)
    return cuet.ChannelWiseTensorProduct(
        *ins, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        device=device, math_dtype=torch.float32, method=cue_method(device),
    )  # fmt: skip


def cue_method(device: torch.device) -> str:
    """Their kernels, which need a card and a package of its own; elsewhere PyTorch's einsum."""
    ready = device.type == "cuda" and find_spec("cuequivariance_ops_torch") is not None
    return "uniform_1d" if ready else "naive"


def beside_reference(op: str, rest: tuple[Tensor, ...]) -> dict[str, Callable[..., Any]]:
    return {
        name: lambda *x, call=call: call(*x, *rest)
        for name, call in (("ours", declared(op)), ("PyTorch", reference_of(op)))
    }


def random_graph(
    device: torch.device, edges: int, nodes: int | None = None
) -> tuple[Tensor, EdgeIndex]:
    nodes = nodes or max(2, edges // NEIGHBOURS)
    index = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))
    index = index.to(device)
    return index, EdgeIndex.from_edges(index, nodes, nodes)


def three(product: Any, edges: int, nodes: int | None = None) -> list[tuple[int, int]]:
    """Shapes of features, of harmonics and of weights."""
    rows = edges if nodes is None else nodes
    return [
        (rows, product.irreps_in1.dim),
        (edges, product.irreps_in2.dim),
        (edges, product.weight_numel),
    ]


def operands(shapes: Sequence[tuple[int, ...]], device: torch.device) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator) for shape in shapes)
    return [x.to(device).requires_grad_() for x in drawn]
