"""Numbers of README and of the documents, computed from the records under ``bench/results/``.

    python -m bench.figures            # print what differs
    python -m bench.figures --write    # update the tables, with as many decimals as they have

The function NAME yields the rows of the table below ``<!-- figures: NAME -->``: the numbers of all
cells but the first, as shares in cells with ``%``. ``bench/sentences.py`` yields phrases with
numbers. The table of all layers is written whole.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate, zip_longest
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

import numpy as np
from scipy.stats import binomtest

from bench.large_mesh import STAGES
from bench.peers import KINDS, fastest
from bench.row import best_peers, slower
from bench.rows import all_rows

REPOSITORY = Path(__file__).parents[1]
TABLE_PAGES = ("README.md", "docs/benchmarks.md", "docs/cuda.md", "docs/kernels.md")
README, BENCHMARKS, CUDA, KERNELS = TABLE_PAGES
ISAS = ("avx2", "avx512")
TABLE = re.compile(r"<!-- figures: (?P<name>\w+) -->\n\|.*\n\|[-|]*\n(?P<rows>(?:\|.*\n)*)")
# Code, seeds and draws in the cells of a table are no figures.
NUMBER = re.compile(
    r"`[^`]*`|(?:seeds?|draws?) \d(?: to \d)?|(?P<number>\b\d+(?:,\d{3})*(?:\.\d+)?(?=x?\b))"
)
MODELS = ("mace", "nequip")
LEVEL = 0.95  # of intervals
Rows = Iterable[list[float]]


@cache
def record(name: str) -> Any:
    return json.loads((REPOSITORY / f"bench/results/{name}.json").read_text())


def at(name: str, *path: Any) -> list[Any]:
    """Return the values at a path: a key, several, all (``...``), or items with these entries."""
    found = [record(name)]
    for step in path:
        if isinstance(step, dict):
            found = [item for values in found for item in values if step.items() <= item.items()]
        elif step is ...:
            values = (v.values() if isinstance(v, dict) else v for v in found)
            found = [item for items in values for item in items]
        else:
            keys = step if isinstance(step, tuple) else (step,)
            found = [values[key] for values in found for key in keys]
    assert found, (name, path)
    return found


def of_models(name: str, *path: Any) -> list[Any]:  # of MACE and of NequIP
    return [value for model in MODELS for value in at(name.format(model), *path)]


def ends(values: Iterable[float]) -> list[float]:
    found = list(values)
    return [min(found), max(found)]


def mean_least(values: Iterable[float]) -> list[float]:
    found = list(values)
    return [geometric_mean(found), min(found)]


def of_accuracy(accuracy: float, number: int) -> list[float]:
    """Return the Wilson interval of a share of so many independent predictions."""
    found = binomtest(round(accuracy * number), number).proportion_ci(LEVEL, method="wilson")
    return [found.low, found.high]


def of_ratio(slower: list[float], faster: list[float]) -> list[float]:
    """Return the bootstrap interval of the ratio of two medians of interleaved calls."""
    assert len(slower) == len(faster), "calls are not interleaved"
    rounds = np.random.default_rng(0).integers(len(slower), size=(9999, len(slower)))
    a, b = (np.median(np.asarray(seconds)[rounds], axis=1) for seconds in (slower, faster))
    return np.quantile(a / b, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()


def channelwise(problem: str, peer: str = "e3nn") -> list[float]:
    """Return speed-ups over the eager and the fastest mode, for each pass."""
    keys = (f"{peer} {kind}{mode}" for kind in KINDS for mode in ("", ", fastest mode"))
    return at("channelwise", "summary", f"{problem}, 2 threads", tuple(keys))


def over_fastest(
    reduce: Callable[[list[float]], list[float]], name: str, problems: str, *peers: str
) -> list[float]:
    """Reduce speed-ups over the faster of these peers in their fastest modes, for each pass."""
    found = [row for key, row in record(name)["summary"].items() if re.fullmatch(problems, key)]
    columns = [[f"{peer} {kind}, fastest mode" for peer in peers] for kind in KINDS]
    ratios = [[min(row[c] for c in some) for row in found if some[-1] in row] for some in columns]
    return [value for some in ratios for value in reduce(some)]


def thirteen(kept: str = "") -> list[float]:
    problems = f".*1024 edges, 2 threads{kept}"
    return over_fastest(mean_least, "channelwise", problems, "e3nn", "cuEquivariance")


def on_sphere(problem: str, peer: str, kind: str) -> list[float]:
    return at("sphere_2_threads", "summary", f"{problem}, {kind}", ..., f"{peer}, fastest mode")


def products() -> Rows:
    yield channelwise("small, 64 edges")
    yield channelwise("mace-large, 1024 edges")
    yield channelwise("mace-large, 8192 edges")
    yield channelwise("mace-large, 8192 edges", "cuEquivariance")
    yield channelwise("conv mace-large, 50 neighbours, 8200 edges")
    yield thirteen()
    yield over_fastest(mean_least, "connected", ".*threads", "e3nn", "cuEquivariance ir_mul")
    yield over_fastest(ends, "connected", "full.*threads", "e3nn")
    yield [x for kind in KINDS[:2] for x in ends(on_sphere("grid", "e3nn", kind))]
    harmonics = "spherical harmonics"
    yield [x for kind in KINDS for x in mean_least(on_sphere(harmonics, "e3nn", kind))]
    yield [x for kind in KINDS[:2] for x in ends(on_sphere(harmonics, "sphericart", kind))]


def models() -> Rows:
    yield of_models("interop_models_{}", "ratio")
    yield of_models("interop_models_{}_memory_kept", "ratio")


def of_frozen(*models: str) -> Rows:
    for model in models:
        yield at(f"interop_models_{model}_one_thread", ("ratio", "ratio_frozen"))


def frozen() -> Rows:
    return of_frozen("mace", "nequip", "sevennet_0", "sevennet_l3i5", "allegro")


def mace_peers() -> Rows:
    sizes = {"one_thread": (32, 108, 500), "two_threads": (108, 500), "float64": (108,)}
    for name, atoms in sizes.items():
        for count in atoms:
            (times,) = at(f"mace_peers_{name}", "runs", {"atoms": count}, "median_seconds")
            names = ("mace", "accelerated", "frozen", "symmetrix")
            yield [*(1e3 * times[key] for key in names), times["symmetrix"] / times["frozen"]]


def speedups() -> Rows:
    for model in MODELS:
        yield at(f"interop_models_{model}", "ratio")
    yield from ([ratio] for _, ratio in of_frozen("mace", "sevennet_0"))
    yield from ([ratio] for ratio in channelwise("mace-large, 8192 edges")[2:4])


def potential(subset: str, minutes: float, threads: int) -> Any:
    """Return the last run with these settings."""
    runs = at("potentials", "runs", {"threads": threads})
    found = [run for run in runs if run["train"]["recipe"]["minutes"] == minutes]
    return [run for run in found if run["train"]["subset"] == subset][-1]


FORCES = "force MAE (meV/A)"
LONGEST = (
    *(("ethanol", minutes, 1) for minutes in (50.0, 110.0, 95.0)),
    *(("aspirin", minutes, 1) for minutes in (85.0, 95.0)),
)


def potentials() -> Rows:
    for wanted in (("ethanol", 15.0, 2), *LONGEST):
        run = potential(*wanted)
        errors = run["errors"]["test"]
        numbers = run["parameters"], run["milliseconds per step"]
        yield [wanted[1], *numbers, errors[FORCES], errors["energy MAE (meV)"]]


def potential_curves() -> Rows:
    runs = [potential(*wanted) for wanted in LONGEST] + at("potentials_3bpa", "runs", 1)
    for run in runs:
        history, curve = run["history"], []
        seconds = list(accumulate(line["seconds"] for line in history))
        for minutes in (10, 20, 40):
            done = [e for e, t in zip(history, seconds, strict=True) if t <= 60 * minutes]
            curve.append([e["validation_error"] for e in done if e["validation_error"]][-1])
        yield [*curve, history[-1]["train_error"], run["errors"]["validation"][FORCES]]


def potential_peers() -> Rows:
    own = potential("ethanol", 5.0, 1)
    steps = round(5 * 60e3 / own["milliseconds per step"], -2)
    yield [own["parameters"], steps, own["errors"]["test"][FORCES]]
    for peer in MODELS:
        (run,) = at("potential_peers", "runs", {"peer": peer})
        yield [run["parameters"], run["steps"], run["errors"]["test"][FORCES]]


def fine_tuning() -> Rows:
    for name in ("start", "all weights", "replay", "low rank", "read-outs"):
        yield at("fine_tuning", "runs", {"run": name}, "errors", ("1200 K", "300 K"), FORCES)


def shapes(series: str) -> list[float]:
    return at(f"shrec11_{series}", "runs", ..., "accuracy")


def shrec11() -> Rows:
    for series in ("16_default", "10_default", "5_default", "16_paper", "5_paper"):
        found = shapes(f"split{series}")
        costs = at(f"shrec11_split{series}", "runs", 0, ("parameters", "epochs"))
        several = found if len(found) > 1 else []
        yield [int(series.partition("_")[0]), mean(found), *several, *costs]


def princeton() -> Rows:
    variants = ("default", "damaged versions in training")
    runs = [at("mesh_resolution", "runs", {"variant": variant}) for variant in variants]
    shares = [[run["accuracy"] | run["accuracy when damaged"] for run in one] for one in runs]
    for kind in shares[0][0]:
        # of damaged shapes, one per draw
        found = [[float(np.mean(share[kind])) for share in one] for one in shares]
        yield [x for series in found for x in (mean(series), *series)]


def parts() -> Rows:
    measures = ("face accuracy by area, mean over meshes", "face accuracy")
    for measure in (*measures, "mean IoU over parts, by faces"):
        yield at("mesh_segmentation", "mean", ("500", "250"), measure)


def of_large_mesh(stage: str, *columns: str) -> list[Any]:
    """Return numbers of the largest mesh."""
    return at("large_mesh", "runs", {"stage": stage, "faces": 1_002_528}, columns)


def large_meshes() -> Rows:
    for stage in STAGES:
        columns = "seconds, median", "peak GiB", "over trimesh.load"
        each = at("large_mesh", "runs", {"stage": stage}, "microseconds a face")
        yield each + of_large_mesh(stage, *columns)


def dynamics() -> Rows:
    ours, peer = ({"network": name} for name in ("ours", "MeshGraphNet"))
    kinds = [row["meshes"] for row in at("mesh_dynamics", "runs", ours, "errors")[0]]
    for kind in kinds:
        path = ("errors", {"meshes": kind}, ("one_step", "rollout"))
        mine, theirs = (at("mesh_dynamics", "runs", who, *path) for who in (ours, peer))
        yield [*mine, *theirs, theirs[1] / mine[1]]


def digits() -> Rows:
    tests = ("affNIST", "homNIST", "centred")
    costs = ("parameters", "GFLOP for an image", "epochs", "training seconds")
    for name in ("default", "frame-cnn", "cnn"):
        yield at(f"affnist_{name}", "runs", 0, tests + costs)


def embeddings() -> Rows:
    for dtype in ("", " float32"):
        path = ("speed-up", f"embed against eager{dtype}")
        kinds = ({"kind": "forward"}, {"kind": "forward and backward"})
        yield [x for kind in kinds for x in ends(at("mds", "rows", kind, *path))]


def robust_clouds() -> Rows:
    for run in at("robust_clouds", "runs", ...):
        if "changes" in run:
            yield [*(change["mean"] for change in run["changes"].values()), run["frames"]]


def clouds(network: str, copy: str) -> list[float]:
    return at(f"modelnet10_{network}", "runs", ..., "accuracy", copy)


def modelnet10() -> Rows:
    for network in ("mds", "plain", "affine-default", "affine-SO", "affine-GLPlus"):
        name = f"modelnet10_{network}"
        copies = ("upright", "rotated", "scaled", "sheared")
        equal = min(at(name, "runs", ..., "equal predictions", "rotated"))
        found = [x for copy in copies for x in clouds(network, copy)]
        yield [*found, equal, *at(name, "runs", 0, "parameters")]


def tours() -> Rows:
    for network in ("mds", "plain"):
        runs = at("tsp", "runs", {"network": network})
        gaps = [run["gaps"][way] for way in runs[0]["gaps"] for run in runs]
        copies = [copy for run in runs for copy in run["copies"]]
        if network == "plain":
            copies = [copy for copy in copies if copy["kind"] != "all of these"]
        identical = ends(copy["identical"] for copy in copies)
        yield gaps + (identical[:1] if network == "mds" else identical)


def accuracies() -> Rows:
    yield [mean(shapes("split16_default"))]
    yield [mean(shapes("split10_default"))]
    yield at("affnist_frame-cnn", "runs", 0, ("affNIST", "homNIST"))
    yield [mean(clouds(network, "rotated")) for network in ("mds", "plain")]


def intervals() -> Rows:
    """Yield intervals of a series, or of its first run, and the range of its runs."""
    for kept in ("", "_memory_kept"):
        for name in (f"interop_models_{model}{kept}" for model in MODELS):
            sides = (at(name, "runs", ..., "seconds", side, ...) for side in ("before", "after"))
            yield [*of_ratio(*sides), *([] if kept else ends(record(name)["ratios"]))]
    for modes in ("e3nn both", "e3nn.* both"):
        pairs = []
        for name in ("channelwise", "channelwise_repeated_1", "channelwise_repeated_2"):
            case = {"problem": "mace-large", "edges": 8192, "threads": 2, "results kept": True}
            (seconds,) = at(name, "rows", case, "seconds")
            e3nn = [seconds[key] for key in seconds if re.fullmatch(modes, key)]
            pairs.append((min(e3nn, key=median), seconds["ours mul_ir both"]))
        ratios = ends(median(theirs) / median(ours) for theirs, ours in pairs)
        yield [*of_ratio(*pairs[0]), *ratios]
    for series in ("split16_default", "split10_default"):
        number = sum(at(f"shrec11_{series}", "runs", ..., "test meshes"))
        found = shapes(series)
        yield [*of_accuracy(mean(found), number), *ends(found)]
    for test in ("affNIST", "homNIST"):  # of 10,000 digits: two images of one are not independent
        (share,) = at("affnist_frame-cnn", "runs", 0, test)
        yield of_accuracy(share, 10_000)
    for network in ("mds", "plain"):
        (number,) = at(f"modelnet10_{network}", "runs", 0, "clouds")
        found = clouds(network, "rotated")
        yield [*of_accuracy(mean(found), number), *ends(found)]
    (seconds,) = of_large_mesh("both passes", "seconds")
    yield ends(seconds)


PRODUCT, CONV = "channelwise_product, mace-large", "channelwise_conv, mace-large"
CONTRACTION = "symmetric_contraction, 128 channels, ir_mul"
ORDERS = "so2_conv, degrees up to 4, orders up to 2"
CONNECTED, ATTENTION = "fully_connected_product, 16x0e + 16x1o", "segment_attention, 4 heads of 32"


def h100(problem: str, who: str) -> list[float]:
    """Return milliseconds of each pass."""
    found = at("gpu_times", "times", "microseconds", tuple(f"{problem}, {k}" for k in KINDS), who)
    return [microseconds / 1e3 for microseconds in found]


def h100_ratios(problem: str, slower: str, faster: str) -> list[float]:
    return [a / b for a, b in zip(h100(problem, slower), h100(problem, faster), strict=True)]


def cuda() -> Rows:
    harmonics = "spherical_harmonics, degrees 0 to 3"
    for problem, peer in (
        *((PRODUCT, "e3nn"), (f"{PRODUCT}, ir_mul", "cuEquivariance")),
        *((CONV, "e3nn"), (f"{CONV}, ir_mul", "cuEquivariance")),
        *((CONTRACTION, "cuEquivariance"), (harmonics, "e3nn"), (ORDERS, "fairchem-core")),
    ):
        for who in ("ours", peer):
            memory = at("gpu_times", "times", "megabytes", f"{problem}, second", who)
            has_memory = problem not in (CONTRACTION, harmonics)
            yield h100(problem, who) + [x * 2**20 / 1e9 for x in memory if has_memory]


def cuda_floors() -> Rows:
    """Yield least times of three passes, times against them, and counts of the last pass."""
    for problem in (f"{PRODUCT}, ir_mul", CONTRACTION, ORDERS, CONNECTED, ATTENTION):
        passes = at("cuda_floors", "problems", problem, KINDS)
        times = [row[key] for key in ("least us", "measured") for row in passes]
        last = passes[-1]
        moved = last["moved bytes"] / last["least bytes"]
        yield [*times, moved, last["operations"], last["peak bytes"] / 1e9]


def rooflines() -> Rows:
    """Yield shares of bandwidth and arithmetic and the efficiency of threads, in percent."""
    columns = ("share of bandwidth", "share of arithmetic", "efficiency")
    for op in (
        *("channelwise_product, mul_ir", "channelwise_product_backward, mul_ir"),
        *("channelwise_product_double_backward, mul_ir", "channelwise_conv, mul_ir"),
        *("channelwise_conv_backward, mul_ir", "radial_conv, mul_ir", "so2_conv"),
        *("block_linear, mul_ir", "block_linear_backward, mul_ir"),
        *("symmetric_contraction, mul_ir", "fully_connected_product, mul_ir"),
        *("spherical_harmonics", "segment_attention", "principal_axes", "attention_conv"),
    ):
        row = {"op": op, "edges": 4096}
        found = [x for isa in ISAS for x in at(f"rooflines_{isa}", "rows", row, columns)]
        yield [100 * share for share in found]


TABLES: dict[str, Callable[[], Rows]] = {
    function.__name__: function
    for function in (
        *(speedups, accuracies, products, models, frozen, mace_peers),
        *(potentials, potential_curves, potential_peers, fine_tuning),
        *(shrec11, princeton, parts, large_meshes, dynamics, digits, embeddings, robust_clouds),
        *(modelnet10, tours),
        *(intervals, cuda, cuda_floors, rooflines),
    )
}


def layers() -> Iterator[str]:
    """Yield a line for each row of the registry, with numbers where records have them."""
    records = layer_records()
    for row in all_rows():
        found = [run for runs in records.values() for run in runs if row.key.items() <= run.items()]
        if row.layer.startswith("ops.") or (row.size == "large" and not found):
            continue
        cells, remark = ["–"] * 4, ""
        if found:
            run = merged(found)
            cells, remark = layer_cells(run), row.why if slower(run) else ""
        yield f"| `{row.layer}`, {row.problem} | {' | '.join(cells)} | {remark} |"
    for name, runs in records.items():
        facts = runs[0]["circumstances"]
        words = f"{facts['processor']}, {facts['instruction set']}, {runs[0]['threads']} thread"
        yield f"| `{name}.json`: {words}, commit {facts['commit'][:8]} |" + " |" * 5


def layer_records() -> dict[str, list[dict[str, Any]]]:
    """Return the runs of the record, and of those of environments of other libraries behind it."""
    files = (REPOSITORY / "bench/results").glob("layers*.json")
    names = sorted((file.stem for file in files), key=lambda name: (name != "layers", name))
    return {name: record(name)["runs"] for name in names}


def merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first run of a row with the peers of the others: each has ratios of its own."""
    ratios: dict[str, dict[str, float]] = {kind: {} for kind in runs[0]["kinds"]}
    memory: dict[str, float] = {}
    for run in runs:
        memory = run["megabytes"] | memory
        for kind, found in ratios.items():
            found |= {name: x for name, x in run["ratio"][kind].items() if name not in found}
    return {**runs[0], "ratio": ratios, "megabytes": memory}


def layer_cells(run: dict[str, Any]) -> list[str]:
    """Return time, ratios to peers, share of the bound, and memory beside the fastest peer."""
    kinds, bound = run["kinds"], run["share of the bound"]
    times = [1e6 * fastest(run["median seconds"], "ours", kind) / run["count"] for kind in kinds]
    written = (f"{x:,.0f}" if x >= 1000 else f"{x:.3g}" for x in times)
    time = f"{' / '.join(written)} us per {run['unit']}"
    ratios: dict[str, list[str]] = {}
    for kind in kinds:
        for peer, ratio in run["ratio"].get(kind, {}).items():
            ratios.setdefault(peer, []).append(f"{ratio:.2f}x")
    peers = [f"{' / '.join(each)} {peer}" for peer, each in ratios.items()]
    shares = [f"{100 * bound[kind]:.0f} %" for kind in kinds if kind in bound]
    best, _ = best_peers(run).get(kinds[-1], ("", 0.0))
    memory = [run["megabytes"].get(name) for name in ("ours", best)]
    cells = ["; ".join(peers), " / ".join(shares)]
    cells.append(" / ".join(f"{x:,.0f}" for x in memory if x is not None))
    return [time, *(cell or "–" for cell in cells)]


GENERATED: dict[str, Callable[[], Iterator[str]]] = {"layers": layers}


def sentences() -> Iterator[tuple[str, str]]:
    """Yield pages and phrases that they must contain, with numbers as pages write them."""
    from bench.sentences import all_sentences  # which computes with the functions above

    for page, phrase in all_sentences():
        yield page, phrase.replace("%", " %").replace("e-0", "e-")


def joined(text: str) -> str:
    """Return a page in one line, without bold."""
    return " ".join(text.replace("**", "").split())


def rounded(written: str, value: float) -> str:
    """Return a value with the decimals of a number, which stays if the value rounds to it."""
    decimals = len(written.partition(".")[2])
    # A value in the middle between two numbers may be rounded to either.
    if abs(float(written.replace(",", "")) - value) <= 0.5 * 10.0**-decimals * (1 + 1e-9):
        return written
    return f"{value:,.{decimals}f}"


def row(line: str, values: Iterable[float]) -> str:
    """Return a row of a table with these numbers in all cells but the first."""
    start, label, *cells = line.split("|")
    left = list(values)

    def number(found: re.Match[str]) -> str:
        return rounded(found[0], unit * left.pop(0)) if found["number"] else found[0]

    try:
        for place, cell in enumerate(cells):
            unit = 100 if "%" in cell else 1
            cells[place] = NUMBER.sub(number, cell)
    except IndexError:
        raise ValueError(f"{line} has more numbers than the records") from None
    if left:
        raise ValueError(f"{line} has fewer numbers than the records: {left} are left")
    return "|".join([start, label, *cells])


def updated(text: str) -> str:
    """Return a page with the numbers of the records in its tables."""

    def table(found: re.Match[str]) -> str:
        if found["name"] in GENERATED:
            head = found[0].removesuffix(found["rows"])
            return head + "".join(f"{line}\n" for line in GENERATED[found["name"]]())
        rows = zip(found["rows"].splitlines(), TABLES[found["name"]](), strict=True)
        new = "\n".join(row(*pair) for pair in rows)
        return found[0].removesuffix(found["rows"]) + new + "\n"

    return TABLE.sub(table, text)


def problems() -> Iterator[str]:
    """Yield how pages differ from the records."""
    for page in TABLE_PAGES:
        text = (REPOSITORY / page).read_text()
        for old, new in zip_longest(text.splitlines(), updated(text).splitlines()):
            if new != old:
                yield f"{page}: {old}\n  is now {new}"
    for page, phrase in sentences():
        if phrase not in joined((REPOSITORY / page).read_text()):
            yield f"{page} does not contain {phrase!r}"


def main(words: list[str]) -> int:
    if words == ["--write"]:
        for page in TABLE_PAGES:
            path = REPOSITORY / page
            path.write_text(updated(path.read_text()))
    found = list(problems())
    print("\n".join(found) or "all numbers are those of the records")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
