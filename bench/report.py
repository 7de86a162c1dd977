"""One page with the records drawn, which needs nothing beside it.

    python -m bench.report build/bench/report.html      # make bench-report

Times against degrees and by degree of freedom, work against memory traffic under the bounds of the
machine, every kernel beside them, ratios to every peer, and training curves. Every drawing names
its file; missing facts about its machine are listed under it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.recorder import headers
from bench.results_table import commit, seen
from bench.schema import RESULTS
from equigeo.report.html import escape_text
from equigeo.report.page import render_figure, render_page
from equigeo.report.plots import FONT, distinct_color, go, hexadecimal

Points = tuple[list[float], list[float]]
AXIS = {"showline": True, "linecolor": "#999", "gridcolor": "#eee", "zeroline": False}
LEAD = (
    "Drawn from the files under bench/results/. Ratios above one are in favour of equigeo; bars of "
    "all problems and columns of a file are drawn, slow ones too."
)
SERIES = ("modelnet10_mds", "modelnet10_plain", "affnist_default", "affnist_cnn", "potentials")


def read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def lines(
    series: Mapping[str, Points], x: str, y: str, *, log: str = "xy", mode: str = "lines+markers"
) -> go.Figure:
    """A line for every name."""
    figure = go.Figure()
    for number, (name, (xs, ys)) in enumerate(series.items()):
        color = hexadecimal(distinct_color(number, 0.6))
        figure.add_scatter(x=xs, y=ys, name=name, mode=mode, line_color=color, marker_size=6)
    kinds = {axis: "log" if axis in log else "linear" for axis in "xy"}
    figure.update_xaxes(title_text=x, type=kinds["x"], **AXIS)
    figure.update_yaxes(title_text=y, type=kinds["y"], exponentformat="power", **AXIS)
    return _laid_out(figure, 460)


def bars(ratios: Mapping[str, Mapping[str, float]], x: str = "times as fast") -> go.Figure:
    """A group of bars for every problem, a color for every column, and a line at one."""
    figure = go.Figure()
    columns = list(dict.fromkeys(name for row in ratios.values() for name in row))
    for number, column in enumerate(columns):
        rows = [name for name, row in ratios.items() if column in row][::-1]
        figure.add_bar(
            y=rows, x=[ratios[name][column] for name in rows], name=column, orientation="h",
            marker_color=hexadecimal(distinct_color(number, 0.6)),
        )  # fmt: skip
    figure.add_vline(x=1, line_color="#333", line_width=1)
    figure.update_xaxes(title_text=x, type="log", **AXIS)
    figure.update_yaxes(automargin=True)
    return _laid_out(figure, 120 + 14 * sum(map(len, ratios.values())))


def _laid_out(figure: go.Figure, height: int) -> go.Figure:
    figure.update_layout(
        template="none", font=FONT, height=max(320, height), margin={"t": 20, "r": 20, "b": 50},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    return figure


def provenance(names: Iterable[str]) -> str:
    """Where the drawn numbers come from, as HTML."""
    said = []
    for name in names:
        found = list(headers(read(name)))
        facts = seen(h["processor"] for h in found), seen(commit(h) for h in found)
        sets = seen(h["instruction set"] for h in found)
        said.append(f"{name}.json: processor {facts[0]}, instruction set {sets}, commit {facts[1]}")
    return escape_text("; ".join(said).replace("`", ""))


def harmonics() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    found = read("sphere_2_threads")["rows"]
    rows = [r for r in found if r["problem"] == "spherical harmonics" and r["results kept"]]
    series = {
        name: ([r["lmax"] for r in rows], [r["microseconds"][name] for r in rows])
        for name in rows[0]["microseconds"]
    }
    figure = lines(series, "l", "microseconds a point", log="y")
    yield "Spherical harmonics against the degree", figure, ("sphere_2_threads",)


def freedom() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    """Times against L, by degree of freedom, and work against traffic, of all products."""
    names = ("price_of_freedom",)
    tables = [run["comparison"] for run in read("price_of_freedom")["runs"]]
    found = [c for c in tables if c["setting"] == "mimo" and c["batch"] == 100]
    times: dict[str, Points] = {}
    by_freedom: dict[str, Points] = {}
    roofline: dict[str, Points] = {}
    for comparison in found:
        for row in comparison["rows"]:
            if row["milliseconds"] is None:
                continue
            product, microseconds = row["product"], 1e3 * row["milliseconds"] / comparison["batch"]
            add(times, product, comparison["lmax"], microseconds)
            add(by_freedom, product, comparison["lmax"], microseconds / row["degrees_of_freedom"])
            work = 2 * row["multiply_adds"]
            add(roofline, product, work / row["bytes"], work / microseconds / 1e3)
    yield "Products against L (MIMO)", lines(times, "L", "microseconds a pair", log="y"), names
    title = "The same by degree of freedom"
    yield title, lines(by_freedom, "L", "microseconds a pair and degree", log="y"), names
    machine = read("rooflines_avx512")["machine"]["1"]
    bandwidth, peak = machine["copy bandwidth, GB/s"], 2 * machine["multiply-adds, G/s"]
    least = min(min(xs) for xs, _ in roofline.values())
    most = max(max(xs) for xs, _ in roofline.values())
    reach = [least, peak / bandwidth, max(most, peak / bandwidth)]
    roofline["bound of the machine"] = reach, [min(bandwidth * x, peak) for x in reach]
    figure = lines(roofline, "operations a byte", "GFLOP/s", mode="markers")
    figure.data[-1].mode = "lines"
    title = "Work against memory traffic, one thread, under bandwidth and peak of the machine"
    yield title, figure, (*names, "rooflines_avx512")


def kernels() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    """How near every op comes to the bound of the machine."""
    for isa in ("avx512", "avx2"):
        found = read(f"rooflines_{isa}")["rows"]
        largest = max(row["edges"] for row in found)
        shown = {
            row["op"]: {part: row[f"share of {part}"] for part in ("bandwidth", "arithmetic")}
            for row in found
            if row["edges"] == largest
        }
        title = f"Kernels beside bandwidth and arithmetic of the machine, {isa}"
        yield title, bars(shown, "share of the bound"), (f"rooflines_{isa}",)


def add(series: dict[str, Points], name: str, x: float, y: float) -> None:
    """Add a point to a line."""
    xs, ys = series.setdefault(name, ([], []))
    xs.append(x)
    ys.append(y)


def ratios() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    for name in ("channelwise", "connected"):
        rows = read(name)["summary"]
        shown = {
            problem: {k: v for k, v in row.items() if k.endswith("fastest mode")}
            for problem, row in rows.items()
            if not problem.endswith("no results kept")
        }
        yield f"{name} products beside peers", bars({k: v for k, v in shown.items() if v}), (name,)
    found = read("so2_conv")["fairchem-core 2.24.0"]
    shown = {
        f"lmax {r['lmax']}, {r['channels']} channels, {r['edges']:,} edges": {
            part: r[part]["ratio"] for part in ("forward", "both passes")
        }
        for r in found
    }
    yield "Convolutions by orders beside fairchem-core", bars(shown), ("so2_conv",)
    rows = [row for row in read("mds")["rows"] if "kind" in row]
    shown = {f"{row['problem']}, {row['kind']}": row["times as fast"] for row in rows}
    yield "Embeddings beside chains of PyTorch", bars(shown), ("mds",)
    names = tuple(f"small_systems_{name}" for name in ("mace", "nequip", "gate_points"))
    cases = [run for name in names for run in read(name)["runs"]]
    shown = {
        f"{run['case']}, {run['threads']} threads": run["times as fast"]["processor"]
        for run in cases
    }
    yield "Small systems before and after accelerate", bars(shown), names


def curves() -> Iterator[tuple[str, go.Figure, tuple[str, ...]]]:
    """Loss against minutes of training, every run."""
    for name in SERIES:
        series: dict[str, Points] = {}
        for number, run in enumerate(read(name)["runs"]):
            seed = run["seed"] if "seed" in run else run["train"]["seed"]
            minutes, label = 0.0, f"run {number}, seed {seed}"
            for line in run["history"]:
                minutes += line["seconds"] / 60
                add(series, label, minutes, line["loss"])
        yield f"Training loss: {name}", lines(series, "minutes", "loss", log="y"), (name,)


def page() -> str:
    """The whole page."""
    parts = [f"<h1>equigeo: benchmarks</h1><p>{escape_text(LEAD)}</p>"]
    number = 0
    for section in (harmonics, freedom, kernels, ratios, curves):
        for title, figure, names in section():
            parts.append(f"<h2>{escape_text(title)}</h2>")
            parts.append(render_figure(f"figure-{number}", figure, provenance(names)))
            number += 1
    return render_page("equigeo: benchmarks", "\n".join(parts))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    output = parser.parse_args(words).output
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(), encoding="utf-8")
    print(output)


if __name__ == "__main__":
    main()
