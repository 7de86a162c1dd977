"""Times on a device of ops at the sizes of models, each beside a peer that computes the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from timeit import timeit
from typing import Any

import torch
from torch import Tensor

from bench import products as channels
from bench import so2_conv as orders
from bench.op_calls import ELEMENTS, MACE, calls_of
from bench.peers import agree, drawn, with_compiled
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex, neighbor_list
from equigeo.interop import cuequivariance, to_e3nn
from equigeo.ops.runtime.declare import declared, reference_of
from tests.interop.interatomic import Atoms

Problem = tuple[dict[str, Callable[..., Tensor]], list[Tensor]]
"""What is compared, by name, and what all of it takes."""

NEIGHBOURS = 32
Call = Callable[[], Any]
WARM_UP = 3  # calls: TorchScript, which e3nn uses, compiles in the first two


def channelwise_product(layout: str, device: torch.device, edges: int) -> Problem:
    product, who, theirs = channelwise_of(tp.ChannelwiseTensorProduct, layout, device)
    return {"ours": product, who: theirs}, on(device, channels.operands(product, edges, edges))


def channelwise_conv(layout: str, device: torch.device, edges: int) -> Problem:
    conv, who, theirs = channelwise_of(tp.ChannelwiseConv, layout, device)
    index, graph = random_graph(device, edges)
    nodes = graph.num_targets
    given = {"indices_1": index[0], "indices_out": index[1], "size_out": nodes}

    def by_messages(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        if who != "e3nn":
            return theirs(x, y, w, **given)
        messages = theirs(x.index_select(0, index[0]), y, w)
        return x.new_zeros(nodes, messages.shape[1]).index_add(0, index[1], messages)

    calls = {"ours": lambda x, y, w: conv(x, graph, y, w), who: by_messages}
    if who == "e3nn" and device.type == "cuda":
        calls["e3nn, compile"] = with_compiled(by_messages)["compile"]
        calls |= fused_convs(theirs, *index)
    return calls, on(device, channels.operands(conv, nodes, edges))


def fused_convs(product: Any, source: Tensor, target: Tensor) -> dict[str, Callable[..., Tensor]]:
    """Convolutions of other libraries by the product of e3nn, where they are installed."""
    irreps = product.irreps_in1, product.irreps_in2, product.irreps_out
    paths = [
        (i.i_in1, i.i_in2, i.i_out, i.connection_mode, i.has_weight, i.path_weight)
        for i in product.instructions
    ]
    calls: dict[str, Callable[..., Tensor]] = {}
    if find_spec("openequivariance"):
        oeq = import_module("openequivariance")
        own = {"shared_weights": False, "internal_weights": False}
        problem = oeq.TPProblem(*(oeq.Irreps(str(x)) for x in irreps), paths, **own)
        atomic, fixed = (oeq.TensorProductConv(problem, deterministic=d) for d in (False, True))
        order = target.argsort(stable=True)  # edges of the fixed order are sorted by target
        ends = target[order], source[order], source[order].argsort(stable=True)
        calls["OpenEquivariance"] = lambda x, y, w: atomic(x, y, w, target, source)
        calls["OpenEquivariance, deterministic"] = lambda x, y, w: fixed(
            x, y[order], w[order], *ends
        )
    if find_spec("flashTP_e3nn"):
        flash = import_module("flashTP_e3nn").uvu_TP(*irreps, paths, device="cuda")
        calls["FlashTP"] = lambda x, y, w: flash(x, y, w, source.int(), target.int())
    return calls


def fully_connected_product(device: torch.device, edges: int) -> Problem:
    product = tp.FullyConnectedTensorProduct("16x0e + 16x1o", "0e + 1o", "16x0e + 16x1o")
    product = product.to(device)
    shapes = [(edges, product.irreps_in1.dim), (edges, product.irreps_in2.dim)]
    return {"ours": product, "e3nn": to_e3nn(product)}, on(device, drawn(*shapes))


def spherical_harmonics(device: torch.device, edges: int) -> Problem:
    ours = tp.SphericalHarmonics("0e + 1o + 2e + 3o", normalize=True).to(device)
    return {"ours": ours, "e3nn": to_e3nn(ours)}, on(device, drawn((32 * edges, 3)))


def symmetric_contraction(device: torch.device, edges: int) -> Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = channels.cue_contraction(ELEMENTS, cue_method(device)).to(device)
    ours = cuequivariance.convert(theirs)
    nodes = max(2, edges // NEIGHBOURS)
    generator = torch.Generator().manual_seed(0)
    element = torch.randint(ELEMENTS, (nodes,), generator=generator).to(device)
    chosen = element.int()
    calls = {"ours": lambda x: ours(x, element), "cuEquivariance": lambda x: theirs(x, chosen)}
    return calls, on(device, drawn((nodes, ours.irreps_in.dim)))


def so2_conv(lmax: int, device: torch.device, edges: int) -> Problem:
    """As in UMA: orders up to 2, 128 channels, bias and modulation by orders."""
    size = lmax, 2, 128
    index, graph = random_graph(device, edges)
    index = index[:, index[1].argsort(stable=True)]  # as the peer takes edges
    graph = EdgeIndex.from_edges(index, graph.num_sources, graph.num_targets)
    ours, conv = orders.equigeo(*size, graph)
    inputs = on(device, orders.operands(*size, graph))
    if find_spec("fairchem"):
        return {"ours": ours, "fairchem-core": orders.fairchem(conv, *size, graph)}, inputs
    arguments, _ = calls_of(ours, inputs)["so2_conv"]
    reference = reference_of("so2_conv")

    def composed(x: Tensor, vectors: Tensor, scale: Tensor) -> Tensor:
        return reference(*{**arguments, "x": x, "vectors": vectors, "scale": scale}.values())

    return {"ours": ours, "PyTorch": composed}, inputs


def gather_sum(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.back_target, graph.back_ptr)
    return beside_reference("gather_sum", rest), on(device, drawn((graph.num_sources, 128)))


def segment_attention(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.target, graph.back_order, graph.back_ptr)
    calls = beside_reference("segment_attention", rest)
    firsts = {name: (lambda *x, call=call: call(*x)[0]) for name, call in calls.items()}
    return firsts, on(device, drawn((graph.num_sources, 4, 32), (edges, 4)))


def neighbor_lists(device: torch.device, edges: int) -> Problem:
    """Edges of copper at a cutoff of 5; of the peers only SciPy's trees sort and validate."""
    atoms = Atoms.copper(round((3 * edges / 4) ** (1 / 3)), torch.float64)
    cell = atoms.length * torch.eye(3, dtype=torch.float64, device=device)
    calls: dict[str, Callable[[Tensor], Any]] = {
        "ours": lambda x: neighbor_list(x, 5.0, cell, backend="cells").edge_index[0],
        "SciPy": lambda x: neighbor_list(x, 5.0, cell, backend="scipy").edge_index[0],
    }
    if find_spec("nvalchemiops"):
        theirs = import_module("nvalchemiops.torch.neighbors").neighbor_list
        given = {"pbc": cell[None].any(1), "max_neighbors": 64, "return_neighbor_list": True}
        calls["nvalchemi-toolkit-ops"] = lambda x: theirs(x, 5.0, cell[None], **given)[0][0]
    if find_spec("vesin"):
        compute = import_module("vesin").NeighborList(cutoff=5.0, full_list=True).compute
        calls["vesin"] = lambda x: compute(points=x, box=cell, periodic=True, quantities="ij")[0]
    counts = {who: lambda x, f=f: x.new_tensor(len(f(x.detach()))) for who, f in calls.items()}
    return counts, on(device, [atoms.positions])


PROBLEMS: dict[str, Callable[[torch.device, int], Problem]] = {
    "channelwise_product, mace-large": partial(channelwise_product, "mul_ir"),
    "channelwise_product, mace-large, ir_mul": partial(channelwise_product, "ir_mul"),
    "channelwise_conv, mace-large": partial(channelwise_conv, "mul_ir"),
    "channelwise_conv, mace-large, ir_mul": partial(channelwise_conv, "ir_mul"),
    "fully_connected_product, 16x0e + 16x1o": fully_connected_product,
    "spherical_harmonics, degrees 0 to 3": spherical_harmonics,
    "symmetric_contraction, 128 channels, ir_mul": symmetric_contraction,
    "so2_conv, degrees up to 4, orders up to 2": partial(so2_conv, 4),
    "so2_conv, degrees up to 2, orders up to 2": partial(so2_conv, 2),
    "gather_sum, 128 channels": gather_sum,
    "segment_attention, 4 heads of 32": segment_attention,
    "neighbor_list, copper": neighbor_lists,
}


def channelwise_of(layer: Any, layout: str, device: torch.device) -> tuple[Any, str, Any]:
    """Ours, and the product of a peer with the same irreps, and the weights in the same order."""
    ours = layer(*MACE, layout=layout).to(device)
    if layout == "mul_ir":
        return ours, "e3nn", to_e3nn(tp.ChannelwiseTensorProduct(*MACE)).to(device)
    options = {"math_dtype": torch.float32, "method": cue_method(device)}
    return ours, "cuEquivariance", channels.cue_product(MACE, device=device, **options)


def cue_method(device: torch.device) -> str:
    """Their kernels, which need a GPU and a package of its own; elsewhere PyTorch's einsum."""
    ready = device.type == "cuda" and find_spec("cuequivariance_ops_torch") is not None
    return "uniform_1d" if ready else "naive"


def beside_reference(op: str, rest: tuple[Tensor, ...]) -> dict[str, Callable[..., Any]]:
    return {
        name: lambda *x, call=call: call(*x, *rest)
        for name, call in (("ours", declared(op)), ("PyTorch", reference_of(op)))
    }


def random_graph(device: torch.device, edges: int) -> tuple[Tensor, EdgeIndex]:
    nodes = max(2, edges // NEIGHBOURS)
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(nodes, (2, edges), generator=generator).to(device)
    return index, EdgeIndex.from_edges(index, nodes, nodes)


def on(device: torch.device, inputs: Iterable[Tensor]) -> list[Tensor]:
    return [x.detach().to(device).requires_grad_() for x in inputs]


def measure_ops(
    device: torch.device, edges: int, rounds: int, names: Iterable[str] = PROBLEMS
) -> dict[str, Any]:
    """Microseconds of each call, in float32, after a comparison of the results."""
    found: dict[str, Any] = {
        "edges": edges, "rounds": rounds, "cuEquivariance": cue_method(device),
        "bytes per second, copy": copied(device, rounds), "microseconds": {}, "spread": {},
        "megabytes": {}, "share of the copy": {}, "without": {}, "failures": [],
    }  # fmt: skip
    for name in names:
        try:
            measure(found, name, *PROBLEMS[name](device, edges), device, rounds)
        except Exception as error:  # the others go on
            text = " ".join(str(error).split())[:300]
            found["failures"].append(f"{name}: {type(error).__name__}: {text}")
    return found


def measure(
    found: dict[str, Any],
    name: str,
    calls: dict[str, Callable[..., Tensor]],
    inputs: list[Tensor],
    device: torch.device,
    rounds: int,
) -> None:
    """All passes of one problem, of a peer those that it has."""
    calls = existing(found, name, {who: partial(call, *inputs) for who, call in calls.items()})
    results = [call() for call in calls.values()]
    for other in results[1:]:
        agree(results[0], other)
    size = sum(x.numel() * x.element_size() for x in (*inputs, results[0]))
    del results
    for kind, every in passes(calls, inputs).items():
        key = f"{name}, {kind}"
        timed = existing(found, key, every)
        seconds = in_turn(timed, device, rounds)
        found["microseconds"][key] = {who: micro(median(s)) for who, s in seconds.items()}
        found["spread"][key] = {
            who: [micro(sorted(s)[round(q * (len(s) - 1))]) for q in (0.25, 0.75)]
            for who, s in seconds.items()
        }
        found["megabytes"][key] = {who: peak(call, device) for who, call in timed.items()}
        if kind == "forward":
            least = 1e6 * size / found["bytes per second, copy"]
            found["share of the copy"][name] = {
                who: round(least / time, 3) for who, time in found["microseconds"][key].items()
            }


def existing(found: dict[str, Any], name: str, calls: dict[str, Call]) -> dict[str, Call]:
    """Calls that return, ours always; errors of others are kept."""
    kept = dict(calls)
    for who, call in calls.items():
        try:
            call()
        except Exception as error:
            if who == "ours":
                raise
            found["without"][f"{name}, {who}"] = " ".join(str(error).split())[:200]
            del kept[who]
    return kept


def micro(seconds: float) -> float:
    return round(1e6 * seconds, 2)


def passes(calls: dict[str, Call], inputs: list[Tensor]) -> dict[str, dict[str, Call]]:
    """The forward pass without a graph, both passes, and what training on forces adds."""

    def both(call: Call) -> Any:
        result = call()
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    def second(call: Call) -> Any:
        result = call()
        slopes = torch.autograd.grad(result, inputs, torch.ones_like(result), create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in slopes), inputs)

    def forward(call: Call) -> Tensor:
        with torch.no_grad():
            return call()

    kinds: list[Callable[[Call], Any]] = [forward]
    result = next(iter(calls.values()))()
    if result.requires_grad:
        slopes = torch.autograd.grad(result, inputs, torch.ones_like(result), create_graph=True)
        # Sums have no second derivatives.
        kinds += [both, second] if all(x.requires_grad for x in slopes) else [both]
    return {
        kind.__name__: {name: partial(kind, call) for name, call in calls.items()} for kind in kinds
    }


def in_turn(calls: dict[str, Call], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round of each call, by the clock of the device."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP + rounds):
        for name, call in calls.items():
            seconds[name].append(timed(call, device))
    return {name: values[WARM_UP:] for name, values in seconds.items()}


def timed(call: Call, device: torch.device) -> float:
    """Seconds of one call."""
    if device.type != "cuda":
        return timeit(call, number=1)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    first.record()
    call()
    last.record()
    torch.cuda.synchronize(device)
    return float(first.elapsed_time(last)) / 1e3


def copied(device: torch.device, rounds: int) -> float:
    """Bytes that a copy reads and writes in a second."""
    size = 2**28 if device.type == "cuda" else 2**22  # numbers: more than caches hold
    source = torch.ones(size, device=device)
    target = torch.empty_like(source)
    seconds = in_turn({"copy": lambda: target.copy_(source)}, device, rounds)["copy"]
    return 2 * source.nbytes / median(seconds)


def peak(call: Call, device: torch.device) -> float | None:
    """Megabytes that are allocated at most during a call."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    torch.cuda.synchronize(device)
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
