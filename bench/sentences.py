"""Phrases with numbers that pages must contain, computed from the records."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.figures import (
    BENCHMARKS,
    CONTRACTION,
    CONV,
    CUDA,
    ISAS,
    KERNELS,
    LEVEL,
    PRODUCT,
    README,
    at,
    channelwise,
    clouds,
    ends,
    h100_ratios,
    of_large_mesh,
    of_models,
    record,
    thirteen,
)
from bench.rooflines import ARITHMETIC, BANDWIDTH

COMPARISON, PRICES = "docs/comparison.md", "docs/howto/price_of_freedom.md"
INVARIANT, INSTALL, CHANGELOG = "docs/howto/invariant.md", "docs/install.md", "CHANGELOG.md"


def all_sentences() -> Iterator[tuple[str, str]]:
    """Yield pages and phrases."""
    for part in (product_sentences, model_sentences, shape_sentences, kernel_sentences):
        yield from part()


def product_sentences() -> Iterator[tuple[str, str]]:
    a, b, c = thirteen(", no results kept")[::2]
    yield BENCHMARKS, f"the mean of the thirteen models is {a:.1f}x, {b:.1f}x and {c:.0f}x."
    memory = 1 / record("conv_memory")["ChannelwiseConv over e3nn"]
    yield BENCHMARKS, f"`ChannelwiseConv` allocates {memory:.0f}x less memory than the e3nn"
    copy = (f"share of copy bandwidth, {layout} forward" for layout in ("mul_ir", "ir_mul"))
    a, b = at("channelwise", "summary", "mace-large, 8192 edges, 2 threads", tuple(copy))
    yield BENCHMARKS, f"8,192 edges reaches {a:.0%} (`mul_ir`) and {b:.0%} (`ir_mul`) of the"
    layers = [f"tensor_products.{x}" for x in ("ChannelwiseTensorProduct", "SphericalHarmonics")]
    path = ("microseconds", "8 rows", (*layers, "2 * x"), ("forward", "both passes"))
    a, b, c, d, e, f = at("fixed_cost", *path)
    yield BENCHMARKS, f"{a:.0f} us and {b:.0f} us for a channelwise product, {c:.0f} us and"
    yield BENCHMARKS, f"us and {d:.0f} us for spherical harmonics, {e:.1f} us and {f:.0f} us for"
    runs = at("busy_cores", "runs", {"layer": layers[0], "problem": "small, mul_ir, 64 rows"})
    times = [(r["threads"], *r["median seconds"].values()) for r in runs]  # ours first, then e3nn's
    two, one = ([t for t in times if t[0] == n] for n in (2, 1))
    a, b = (median(t[k] for t in two) / median(t[k] for t in one) for k in (1, 3))
    yield KERNELS, f"{a:.2f}x (forward) and {b:.2f}x (both passes)"
    rows = at("price_of_freedom", "runs", {"setting": "mimo", "batch": 10_000, "lmax": 10})
    found = {row["product"]: row for row in rows[0]["comparison"]["rows"]}
    a, b = (found[name]["milliseconds"] for name in ("gaunt grid", "full_sparse even"))
    yield PRICES, f"from L = 3 on: {a:.1f} ms at L = 10, against {b:.0f} ms for sparse"
    a, b = (found[name]["degrees_of_freedom"] for name in ("gaunt grid", "full_sparse even"))
    yield PRICES, f"{a} degrees of freedom at L = 10, the even paths have {b}."
    timed = at("price_of_freedom", "runs", {"batch": 10_000}, "comparison", "rows", ...)
    minutes = 20 * sum(row["milliseconds"] or 0 for row in timed) / 60e3
    yield PRICES, f"timed calls of 20 repetitions take {minutes:.0f} minutes"


def model_sentences() -> Iterator[tuple[str, str]]:
    a, b = of_models("interop_models_{}_memory_kept", "ratio")
    yield README, f"the first two are {a:.0f}x and {b:.1f}x faster"
    (setup,) = at("mace_peers_one_thread", "runs", {"atoms": 500}, "setup_seconds")
    a, b = setup["symmetrix"], setup["frozen"]
    yield BENCHMARKS, f"in {a:.0f} s here; freezing takes {b:.1f} s. The same"
    a, b, c, d = (x / 1e6 for x in of_models("step_memory_{}", "bytes", ("accelerated", "before")))
    yield BENCHMARKS, f"take {a:.0f} MB of resident memory instead of {b:.0f} MB with MACE, and"
    yield BENCHMARKS, f"with MACE, and {c:.0f} MB instead of {d:.0f} MB with NequIP"
    (run,) = at("potentials_3bpa", "runs", 1)
    a, b, c = (run["errors"][f"{t} K"]["force RMSE (meV/A)"] for t in (300, 600, 1200))
    minutes = run["train"]["recipe"]["minutes"]
    yield (
        BENCHMARKS,
        f"trained at 300 K with 64 channels for {minutes:.0f} minutes, has root mean square errors",
    )
    yield BENCHMARKS, f"forces of {a:.0f} (300 K), {b:.0f} (600 K) and {c:.0f} meV/A (1200 K)"
    sets = at("potential_uncertainty", "sets", ("300 K", "600 K", "1200 K"))
    a, b, c = (found["correlation of atoms"] for found in sets)
    yield BENCHMARKS, f"of atoms of {a:.2f} (300 K), {b:.2f} (600 K) and {c:.2f} (1200 K)"
    (a, b), _, (c, d) = (
        [found["summary"][f"force in {n} sd (%)"] for n in (1, 2)] for found in sets
    )
    yield BENCHMARKS, f"{a:.0f}% and {b:.0f}% of the errors are within one and two standard"
    yield BENCHMARKS, f"at 1200 K {c:.0f}% and {d:.0f}%: errors grow faster"
    a, b = ends(at("potential_uncertainty", "times", ..., "ratio"))
    yield BENCHMARKS, f"Evaluations with uncertainties take {a:.2f}x to {b:.2f}x as long"
    (a,) = at("potential_dynamics", "runs", 0, "drift (meV/atom/ps)")
    yield BENCHMARKS, f"without a thermostat drift by {a:.4f} meV/atom/ps"
    a, b = at("lammps_drift", "runs", ..., "drift (meV/atom/ps)")
    yield BENCHMARKS, f"by {a:.4f} (steps of 0.5 fs) and {b:.4f} meV/atom/ps (0.25 fs) in LAMMPS"
    a, b = at("compiled_step", "sets", ("ethanol", "aspirin"), "speed-up")
    yield BENCHMARKS, f"makes a training step {a:.1f}x (ethanol) and {b:.1f}x (aspirin) faster"


def shape_sentences() -> Iterator[tuple[str, str]]:
    (run,) = at("shrec11_split16_paper", "runs")[0]
    changed = run["predictions changed"]["reflected"]
    yield BENCHMARKS, f"{changed} of its {run['test meshes']} predictions change under reflection"
    variant = {"variant": "features of one ring", "seed": 0}
    faces = ("1000", "500", "2500")
    a, b, c = at("mesh_resolution_parts", "runs", variant, "accuracy", faces)
    yield BENCHMARKS, f"accuracies are {a:.1%} (1,000 faces), {b:.1%} (500) and {c:.1%} (2,500)"
    together = at("robust_clouds_one_frame", "runs", {"kind": "skew"}, "noise, half and copies")
    a, b = (together[0][f"flagged of {which}"] for which in ("turning", "stable"))
    yield BENCHMARKS, f"frame, {a:.0%} of those that turn under noise, halving and copies"
    yield BENCHMARKS, f"threshold that {b:.0%} of the stable clouds do not reach"
    both = ("weighted", "weighted, one drawn", "weighted, robust", "weighted, robust, one drawn")
    names = [f"{name}: forward and backward" for name in both]
    path = ("runs", {"kind": "passes"}, "against skew")
    a, b, c, d = at("robust_clouds_passes", *path, tuple(names))
    yield BENCHMARKS, f"with `weighted` takes {a:.1f}x as much time as with `skew` in the forward"
    yield BENCHMARKS, f"frames, and {b:.2f}x with one drawn frame. Robust, it takes {c:.1f}x and"
    yield BENCHMARKS, f"Robust, it takes {c:.1f}x and {d:.1f}x. Forward passes"
    yield INVARIANT, f"takes {a:.1f}x as long as with `skew` with all frames and {b:.2f}x with one"
    yield INVARIANT, f"drawn frame; with `robust=True`, {c:.1f}x and {d:.1f}x"
    a, b = at("robust_clouds_passes", *path, ("weighted: forward", "weighted, robust: forward"))
    yield BENCHMARKS, f"Forward passes take {a:.1f}x, and {b:.1f}x if robust"
    (a,) = at("mesh_segmentation", "runs", 0, "parameters")
    yield BENCHMARKS, f"default preset, {a:,} parameters (`mesh_segmentation.json`)"
    seconds, memory = of_large_mesh("both passes", "seconds, median", "peak GiB")
    yield README, f"take {seconds:.0f} s and {memory:.1f} GiB on one thread"
    yield "docs/tutorials/mesh.py", f"a million faces in {seconds:.0f} s and {memory:.1f} GiB"
    attention = "segment_attention, forward and backward, against geometric"
    path = ("pairs", attention, "median seconds", ("ours", "peer"))
    a, b = (1e3 * x for x in at("short_intel-xeon-processor_avx512_2-cores", *path))
    yield BENCHMARKS, f"on one thread, takes {a:.1f} ms; PyTorch Geometric's softmax and scatter"
    yield BENCHMARKS, f"softmax and scatter take {b:.1f} ms"
    yield COMPARISON, f"takes {a:.1f} ms here and {b:.1f} ms by PyTorch Geometric's"
    corpus, crowded = record("robustness_corpus"), record("robustness_peers")
    a, b = corpus["files"], corpus["files"] - corpus["loaded"]
    yield BENCHMARKS, f"sound files among {a} real ones and raises a named error for {b} files"
    ways, triangles = crowded["totals"], crowded["totals"]["welded"]["faces"]
    yield BENCHMARKS, f"{crowded['files']} files have edges of more than two faces"
    yield BENCHMARKS, f"with {triangles:,} triangles after welding"
    a, b = (ways[way]["pairs"] for way in ("equigeo cut", "libigl split_nonmanifold"))
    yield BENCHMARKS, f"keeps all triangles and {a:,} pairs of adjacent faces"
    yield BENCHMARKS, f"`igl.split_nonmanifold` keeps all triangles and {b:,} pairs"
    lost = 1 - ways["pymeshlab remove faces"]["faces"] / triangles
    yield BENCHMARKS, f"its removal of faces loses {lost:.0%} of the triangles"
    logits = ("runs", 0, "logit change, trained", "rendered against rendered")
    a, b, c = (at(f"affnist_{n}", *logits)[0] for n in ("default", "cnn", "frame-cnn"))
    yield BENCHMARKS, f"change by {a:.3f} of their deviation across images, against {b:.2f} for the"
    yield BENCHMARKS, f"the plain CNN and {c:.2f} for the CNN behind the frame"
    for size in (0.1, 0.6):
        a, b, c = at("affine_equivariance", "quadrature", {"stretch": size}, "error")
        words = f'"stretch {size}": (numbers, ({a:.1e}, {b:.1e}, {c:.1e}))'
        yield "docs/tutorials/affine.py", words
    a, b = ends(at("affine_equivariance", "quadrature", {"samples": 392}, "error"))
    yield COMPARISON, f"{a:.1e} to {b:.1e} with 392 samples of SL(2)"
    eigen = {"problem": "100000 symmetric 3 x 3 matrices of torch.float32"}
    (a,) = at("mds", "rows", eigen, "speed-up")
    yield BENCHMARKS, f"symmetric 3x3 matrices are computed {a:.0f}x faster"
    million = {"problem": "one cloud of 1000000 points of torch.float32", "threads": 1}
    (a,) = at("mds", "rows", million, "milliseconds")
    yield BENCHMARKS, f"cloud of a million points takes {a:.1f} ms"
    a = 100 * (max(clouds("plain", "upright")) - max(clouds("mds", "rotated")))
    yield BENCHMARKS, f"upright accuracy is {a:.1f} points above the best invariant one"
    a, b = ends(at("tsp", "runs", ..., "transfer_gaps", "greedy"))
    yield BENCHMARKS, f"greedy tours are {100 * a:.0f} to {b:.0%} above the best known ones"
    yield BENCHMARKS, f"Intervals of {LEVEL:.0%} ("


def kernel_sentences() -> Iterator[tuple[str, str]]:
    builds = {build["kernels"]: median(build["seconds"]) for build in record("build")["builds"]}
    a, b, c = builds["native"], builds["all"], record("build")["example"]["seconds"][0]
    yield INSTALL, f"for one instruction set in {a:.0f} s and for all three in {b:.0f} s."
    yield INSTALL, f"`make example` takes {c:.0f} s in a fresh clone"
    yield README, f"write a report ({c / 60:.0f} minutes on two"
    yield CHANGELOG, f"it takes {a:.0f} s for one instruction set and {b:.0f} s for all three"
    machines = [record(f"rooflines_{isa}")["machine"] for isa in ISAS]
    (a, b, c, d), (e, f, g, h) = (
        [machine[n][of] for of in (BANDWIDTH, ARITHMETIC) for n in ("1", "2")]
        for machine in machines
    )
    yield KERNELS, f"a copy moves {a:.1f} GB/s with one thread and {b:.1f} GB/s with two, products"
    yield KERNELS, f"products do {c:.0f} and {d:.0f} thousand million multiply-adds a second"
    yield KERNELS, f"(in the run of AVX-512 {e:.1f} and {f:.1f} GB/s, {g:.0f} and {h:.0f})"
    found = [x for isa in ISAS for x in at(f"rooflines_{isa}", "rows", ..., "seconds")]
    lost = 1 - min(min(seconds["1"]) / min(seconds["2"]) for seconds in found)
    yield KERNELS, f"two threads are at worst {lost:.0%} slower than one"
    a, b = ends(record("instructions")["ratio"].values())
    yield KERNELS, f"have {a:.2f}x to {b:.2f}x as many instructions per multiply-add"
    rows = at("gpu", "ops", "rows", ...)
    yield CUDA, f"all {len(rows)} rows of the op table agree"
    yield CUDA, f"in {sum(row['cases'] for row in rows):,} cases, with gradients of two orders"
    largest = max(row["largest share of the tolerance"] for row in rows)
    yield CUDA, f"the largest deviation is {largest:.2f} of the tolerance"
    rows = at("gpu", "layers", "rows", ...)
    passed = sum(row["eager"] == row["float32"] == "passed" for row in rows)
    yield CUDA, f"Of {len(rows)} layers, {passed} passed in float64 and float32"
    a, b, c = h100_ratios(f"{PRODUCT}, ir_mul", "ours", "cuEquivariance")
    yield CUDA, f"faster than ours by factors of {a:.2f}, {b:.2f} and {c:.2f}"
    yield COMPARISON, f"ours are slower by factors of {min(a, b, c):.2f} to {max(a, b, c):.2f}."
    _, a, b = h100_ratios(f"{CONV}, ir_mul", "ours", "cuEquivariance")
    yield CUDA, f"its convolutions with gradients, by {a:.2f} and {b:.2f}."
    path = ("times", "share of the copy", f"{PRODUCT}, ir_mul", ("ours", "cuEquivariance"))
    a, b = at("gpu_times", *path)
    yield CUDA, f"reaches {a:.2f} of the bandwidth of a copy, that of cuEquivariance {b:.2f}."
    rows = record("cuda_resources")["kernels"].items()
    least = min(row.get("bytes in flight", 1e9) for name, row in rows if name.endswith("sm_90"))
    yield (
        CUDA,
        f"waits the warps of a multiprocessor move at least {least / 1e3:.1f} kB on average",
    )
    a, b = channelwise("mace-large, 8192 edges")[2], h100_ratios(PRODUCT, "e3nn", "ours")[1]
    yield COMPARISON, f"is {a:.0f}x faster on two CPU cores with gradients, and {b:.1f}x faster on"
    a = channelwise("mace-large, 8192 edges", "cuEquivariance")[3]
    yield COMPARISON, f"is {a:.1f}x faster than cuEquivariance's fastest mode"
    a = h100_ratios(CONTRACTION, "cuEquivariance", "ours")[1]
    yield COMPARISON, f"which are {a:.1f}x faster with gradients"
