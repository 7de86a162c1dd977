"""Second derivatives of channelwise products and convolutions, as training on forces takes them.

    python -m bench.second_derivatives --output bench/results/second_derivatives.json

The gradients of x, y and the weights are differentiated by these and by the gradient that arrived,
along random tangents, through a graph that is kept. Beside it e3nn, and the same composed of the
product and its gradients, as devices without a kernel for second derivatives take it. Results are
compared before anything is timed. Times are medians of interleaved rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.channelwise import PROBLEMS, SMALL, by_messages, operands, random_graph
from bench.interleaved import all_rounds, medians
from bench.peers import Call, Layer, agree_all, call_times, drawn_like, second
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.interop import to_e3nn
from equigeo.ops.runtime.declare import reference_of

ROWS = {"small": (64,), "mace-large": (1024, 8192)}
NODES, NEIGHBOURS = 164, 50


def calls(
    op: str, ours: Layer, theirs: Layer, inputs: list[Tensor], rest: list[Any]
) -> dict[str, Call]:
    """Every way to the same derivatives."""
    composed = reference_of(f"{op}_double_backward")
    (grad,), tangents = drawn_like([ours(*inputs)], 1), drawn_like(inputs, 2)
    point = [grad, *(x.detach() for x in inputs)]
    found = {
        "ours": second(ours, inputs),
        "composed": lambda: composed(*point, *tangents, *rest, *[True] * 4),
        "e3nn": second(theirs, inputs),
    }
    for other in ("composed", "e3nn"):
        agree_all(found["ours"](), found[other]())
    return found


def product_calls(irreps: tuple[str, str, str], rows: int) -> dict[str, Callable[[], Any]]:
    product = tp.ChannelwiseTensorProduct(*irreps)
    table = product.compiled.table(torch.float32)
    rest = [table.paths, table.entries, table.values, table.ir_mul]
    inputs = operands(product, rows, rows)
    return calls("channelwise_product", product, to_e3nn(product), inputs, rest)


def conv_calls(irreps: tuple[str, str, str]) -> dict[str, Callable[[], Any]]:
    conv = tp.ChannelwiseConv(*irreps)
    product = tp.ChannelwiseTensorProduct(*irreps)
    graph = random_graph(NODES, NEIGHBOURS)
    theirs = by_messages(graph, to_e3nn(product))
    lists = [graph.source, graph.ptr, graph.order, graph.target, graph.back_order, graph.back_ptr]
    table = product.compiled.table(torch.float32)
    rest = [*lists, table.paths, table.entries, table.values, table.ir_mul]
    inputs = operands(conv, NODES, graph.num_edges)
    return calls("channelwise_conv", lambda x, y, w: conv(x, graph, y, w), theirs, inputs, rest)


def measure(name: str, rows: int, timed: dict[str, Callable[[], Any]], rounds: int) -> Any:
    # Small problems many times in a row, so that the caches hold what one call leaves for the next.
    times = max(1, 4096 // rows)
    in_a_row = {way: partial(call_times, call, times) for way, call in timed.items()}
    seconds = all_rounds(in_a_row, rounds)
    middle = {way: time / times for way, time in medians(seconds).items()}
    row = {
        "problem": name,
        "rows": rows,
        "threads": torch.get_num_threads(),
        "calls in a row": times,
        "microseconds": {way: 1e6 * time for way, time in middle.items()},
        "ratios": {way: middle[way] / middle["ours"] for way in ("composed", "e3nn")},
        "seconds": seconds,
    }
    print(json.dumps({k: v for k, v in row.items() if k != "seconds"}), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=[*ROWS, "conv"], default=[*ROWS, "conv"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    torch.set_num_threads(arguments.threads)
    rows = []
    for name in arguments.problems:
        for count in ROWS.get(name, ()):
            timed = product_calls({"small": SMALL, **PROBLEMS}[name], count)
            rows.append(measure(name, count, timed, arguments.rounds))
        if name == "conv":
            timed = conv_calls(PROBLEMS["mace-large"])
            edges = NODES * NEIGHBOURS
            rows.append(measure("conv mace-large", edges, timed, arguments.rounds))
    record.write({"rows": rows})


if __name__ == "__main__":
    main()
