"""Loading, graph and passes of a large mesh, beside trimesh's loading of the same file.

    python -m bench.large_mesh --threads 1 --output bench/results/large_mesh.json

The meshes are tori in binary PLY files, the network is the default preset of the classifier. Every
stage has a process of its own, in which trimesh loads the file once before every repetition; the
peak of memory is that of the process, mesh and graph included.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import trimesh

from bench.interleaved import Call, all_rounds, medians
from bench.recorder import Record, parsed
from equigeo.mesh import PrimalDualClassifier, load_mesh
from equigeo.mesh.nn.residual_block import recompute_blocks

SIDES = (71, 224, 708)  # 10^4, 10^5 and 10^6 faces
STAGES = ("load", "graph with features", "forward", "both passes", "both passes, recomputed")


def stage_call(stage: str, path: Path) -> Call:
    """Prepare a stage and return what it times."""
    if stage == "load":
        return partial(load_mesh, path)
    mesh, model = load_mesh(path)[0], PrimalDualClassifier.preset("default", 30)
    if stage == "graph with features":
        return partial(model.graph, mesh)
    graph = model.graph(mesh)
    if stage == "forward":
        return torch.no_grad()(lambda: model.eval()(graph))
    model.head.eval()  # a single mesh has no statistics over meshes
    recompute_blocks(model, stage.endswith("recomputed"))
    return lambda: model(graph).sum().backward()


def measure(stage: str, path: Path, threads: int, repetitions: int) -> dict[str, Any]:
    """Time a stage and trimesh's loading in turn."""
    torch.set_num_threads(threads)
    faces = len(load_mesh(path)[0].faces)
    calls: dict[str, Call] = {
        "seconds": stage_call(stage, path),
        "trimesh": partial(trimesh.load, path),
    }
    found = all_rounds(calls, repetitions)
    middle = medians(found)
    return {
        "seconds, median": middle["seconds"],
        "microseconds a face": 1e6 * middle["seconds"] / faces,
        "over trimesh.load": middle["seconds"] / middle["trimesh"],
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        **found,
    }


def in_own_process(*given: Any) -> dict[str, Any]:
    """Measure where nothing was allocated before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(measure, *given).result()


def main() -> None:
    """Time every stage at every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parsed(parser, series=True, threads=1)
    record = Record(arguments.output, resume=arguments.resume)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "torus.ply"
        for side in SIDES:
            sections = {"major_sections": side, "minor_sections": side}
            trimesh.creation.torus(2.0, 1.0, **sections).export(path)
            for stage in STAGES:
                given = (stage, path, arguments.threads, arguments.repetitions)
                key = {"stage": stage, "faces": 2 * side**2}
                run = record.keep(key, partial(in_own_process, *given))
                print(key, f"{run['seconds, median']:.3f} s")


if __name__ == "__main__":
    main()
