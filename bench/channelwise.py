"""Channelwise products and convolutions beside e3nn and cuEquivariance, in one process.

    python -m bench.channelwise --output bench/results/channelwise.json

Every result is compared with e3nn's before anything is timed. Times are medians of interleaved
rounds, in microseconds per edge. Fresh results of many megabytes are mapped page by page by the
C library's allocator, for all libraries alike; with ``MALLOC_MMAP_THRESHOLD_`` and
``MALLOC_TRIM_THRESHOLD_`` set high, which the file records, memory is used again instead.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from math import exp, log
from typing import Any

import torch
from torch import Tensor

from bench.interleaved import all_rounds, copy_bandwidth, medians
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop import to_e3nn

SPHERE = "0e+1o+2e+3o"
PROBLEMS: dict[str, tuple[str, str, str]] = {
    "mace-large": ("128x0e+128x1o+128x2e", SPHERE, SPHERE),
    "mace-medium": ("128x0e+128x1o", SPHERE, "0e+1o+2e"),
    "nequip-lips": ("32x0o+32x0e+32x1o+32x1e+32x2o+32x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
    "nequip-revmd17-aspirin": ("64x0o+64x0e+64x1o+64x1e", "0e+1o", "0o+0e+1o+1e"),
    "nequip-revmd17-toluene": (
        "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e",
    ),
    "nequip-revmd17-benzene": (
        "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e+64x3o+64x3e", SPHERE, "0o+0e+1o+1e+2o+2e+3o+3e",
    ),
    "nequip-water": ("32x0o+32x0e+32x1o+32x1e", "0e+1o", "0o+0e+1o+1e"),
    "nequix-first": ("89x0e", SPHERE, SPHERE),
    "nequix-main": ("128x0e+64x1o+32x2e+32x3o", SPHERE, SPHERE),
    "nequix-last": ("128x0e+64x1o+32x2e+32x3o", SPHERE, "0e"),
    "sevennet-first": ("128x0e", "0e+1e+2e+3e", "0e+1e+2e+3e"),
    "sevennet-main": ("128x0e+64x1e+32x2e+32x3e", "0e+1e+2e+3e", "0e+1e+2e+3e"),
    "sevennet-last": ("128x0e+64x1e+32x2e+32x3e", "0e+1e+2e+3e", "0e"),
}  # fmt: skip


def operands(product: tp.ChannelwiseTensorProduct, rows: int, edges: int) -> list[Tensor]:
    shapes = [(rows, product.irreps_in1.dim), (edges, product.irreps_in2.dim)]
    shapes.append((edges, product.weight_numel))
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]


def passes(call: Callable[..., Tensor], inputs: list[Tensor]) -> dict[str, Callable[[], Any]]:
    """The forward pass without a graph, and both passes."""
    with torch.no_grad():
        direction = torch.randn_like(call(*inputs))

    def forward() -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    def both() -> Any:
        return torch.autograd.grad(call(*inputs), inputs, direction)

    return {"forward": forward, "both": both}


def cue_product(irreps: tuple[str, str, str]) -> Any:
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    in1, in2, out = (cue.Irreps("O3", text) for text in irreps)
    return cuet.ChannelWiseTensorProduct(
        in1, in2, out, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        method="naive",
    )  # fmt: skip


@functools.cache
def product_calls(name: str, edges: int) -> dict[str, Callable[[], Any]]:
    """Both passes of every library and layout, after a comparison of the results."""
    irreps = PROBLEMS[name]
    ours = {layout: tp.ChannelwiseTensorProduct(*irreps, layout=layout) for layout in LAYOUTS}
    theirs = to_e3nn(ours["mul_ir"])
    inputs = operands(ours["mul_ir"], edges, edges)
    agree(ours["mul_ir"](*inputs), theirs(*inputs))
    swapped = operands(ours["ir_mul"], edges, edges)
    products = {"e3nn": (theirs, inputs), "ours mul_ir": (ours["mul_ir"], inputs)}
    products["ours ir_mul"] = (ours["ir_mul"], swapped)
    cue = cue_product(irreps)
    products["cuEquivariance ir_mul"] = (lambda x, y, w: cue(x, y, w), swapped)
    return {
        f"{library} {kind}": call
        for library, (product, given) in products.items()
        for kind, call in passes(product, given).items()
    }


def product_numbers(name: str) -> int:
    """Numbers that one edge reads and writes in a forward pass."""
    product = tp.ChannelwiseTensorProduct(*PROBLEMS[name])
    read = product.irreps_in1.dim + product.irreps_in2.dim + product.weight_numel
    return read + product.irreps_out.dim


def measure_product(name: str, edges: int, rounds: int) -> dict[str, Any]:
    seconds = all_rounds(product_calls(name, edges), rounds)
    return {
        "problem": name,
        "edges": edges,
        "threads": torch.get_num_threads(),
        "microseconds per edge": {n: 1e6 * t / edges for n, t in medians(seconds).items()},
        "seconds": seconds,
        "bytes per edge, forward": 4 * product_numbers(name),
    }


@functools.cache
def conv_calls(name: str, nodes: int, neighbours: int) -> dict[str, Callable[[], Any]]:
    """The convolution and its composition of e3nn's product, and where the radial layer is."""
    edges = nodes * neighbours
    conv = tp.ChannelwiseConv(*PROBLEMS[name])
    radial = tp.RadialChannelwiseConv(*PROBLEMS[name], num_hidden=64)
    theirs = to_e3nn(tp.ChannelwiseTensorProduct(*PROBLEMS[name]))
    generator = torch.Generator().manual_seed(1)
    target = torch.arange(nodes).repeat_interleave(neighbours)
    source = torch.randint(nodes, (edges,), generator=generator)
    graph = EdgeIndex.from_edges(torch.stack([source, target]), nodes, nodes)
    inputs = operands(conv, nodes, edges)

    def by_messages(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        messages = theirs(x.index_select(0, source), y, w)
        return x.new_zeros(nodes, messages.shape[1]).index_add(0, target, messages)

    def fused(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return conv(x, graph, y, w)

    agree(fused(*inputs), by_messages(*inputs))
    hidden = torch.randn(edges, 64, generator=generator)
    x, y, _ = (given.detach() for given in inputs)
    scaled = radial.radial.detach() / 8
    agree(radial(x, graph, y, hidden), conv(x, graph, y, hidden @ scaled))
    calls = {f"e3nn {kind}": call for kind, call in passes(by_messages, inputs).items()}
    calls |= {f"ours {kind}": call for kind, call in passes(fused, inputs).items()}
    with torch.no_grad():
        inside = passes(lambda h: radial(x, graph, y, h), [hidden.requires_grad_()])["forward"]
        outside = passes(lambda h: conv(x, graph, y, h @ scaled), [hidden])["forward"]
    return calls | {"ours, radial layer inside": inside, "ours, radial layer before": outside}


def measure_conv(name: str, nodes: int, neighbours: int, rounds: int) -> dict[str, Any]:
    edges = nodes * neighbours
    seconds = all_rounds(conv_calls(name, nodes, neighbours), rounds)
    return {
        "problem": f"conv {name}, {neighbours} neighbours",
        "edges": edges,
        "threads": torch.get_num_threads(),
        "microseconds per edge": {n: 1e6 * t / edges for n, t in medians(seconds).items()},
        "seconds": seconds,
    }


def agree(got: Tensor, want: Tensor) -> None:
    """Float32 sums in another order."""
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * float(want.detach().abs().max()))


def summary(rows: list[dict[str, Any]], bandwidth: float) -> dict[str, Any]:
    """The figures that the tables ask for."""
    lines: dict[str, Any] = {}
    logs = []
    for row in rows:
        us = row["microseconds per edge"]
        if row["problem"].startswith("conv"):
            ratios = {kind: us[f"e3nn {kind}"] / us[f"ours {kind}"] for kind in ("forward", "both")}
            ratios["radial layer inside"] = (
                us["ours, radial layer before"] / us["ours, radial layer inside"]
            )
        else:
            ratios = {
                f"e3nn {kind}": us[f"e3nn {kind}"] / us[f"ours mul_ir {kind}"]
                for kind in ("forward", "both")
            }
            for kind in ("forward", "both"):
                cue = us[f"cuEquivariance ir_mul {kind}"]
                ratios[f"cuEquivariance {kind}"] = cue / us[f"ours ir_mul {kind}"]
                ratios[f"mul_ir / ir_mul {kind}"] = (
                    us[f"ours mul_ir {kind}"] / us[f"ours ir_mul {kind}"]
                )
            better = min(us["e3nn both"], us["cuEquivariance ir_mul both"])
            best = min(us["ours mul_ir both"], us["ours ir_mul both"])
            if row["edges"] == 1024:
                logs.append(log(better / best))
            rate = row["bytes per edge, forward"] / us["ours mul_ir forward"] * 1e6
            ratios["share of copy bandwidth, forward"] = rate / bandwidth
        key = f"{row['problem']}, {row['edges']} edges, {row['threads']} threads"
        lines[key] = {name: round(value, 2) for name, value in ratios.items()}
    if logs:
        lines["against the better of the two, both passes, 1,024 edges"] = {
            "geometric mean": round(exp(sum(logs) / len(logs)), 2),
            "least": round(exp(min(logs)), 2),
        }
    return lines


LAYOUTS = ("mul_ir", "ir_mul")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=tuple(PROBLEMS), default=[*PROBLEMS])
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=5)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows, bandwidths = [], {}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        bandwidths[threads] = copy_bandwidth()
        for name in arguments.problems:
            sizes = (1024, 8192) if name == "mace-large" else (1024,)
            rows += [measure_product(name, edges, arguments.rounds) for edges in sizes]
            print(json.dumps(rows[-1]), flush=True)
        if "mace-large" in arguments.problems:
            rows.append(measure_conv("mace-large", 164, 50, arguments.rounds))
            print(json.dumps(rows[-1]), flush=True)
    results = {
        "copy bandwidth, GB/s": {n: b / 1e9 for n, b in bandwidths.items()},
        "summary": summary(rows, max(bandwidths.values())),
        "rows": rows,
    }
    record.write(results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
