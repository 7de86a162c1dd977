"""Frames of real clouds under noise, resampling, copies, outliers and cuts, for each kind.

    python -m bench.robust_clouds --data ../shared/data/modelnet10_points \
        --output bench/results/robust_clouds.json

Every cloud is changed in six ways, with ``--draws`` draws each. A frame turns if one of its axes
turns by more than 30 degrees; of several frames, weights are matched to those of the changed cloud,
nearest frames first, and what is left has turned. ``mean`` is the share of weight that turns and
``clouds`` the share of clouds of which more than half does, which is the same for a single frame.

A cloud is stable under a change if it turns in no draw. The threshold of ``MDSResult.stability``,
the least of the axes, is chosen on one training cloud in 32 so that a tenth of the stable ones
is below, for noise, halves and copies together. ``--split held-out`` evaluates on other
training clouds instead of test clouds. ``--steps`` also times passes, which needs an idle machine.
``--resume`` keeps finished kinds.

``--accuracy runs/modelnet10/*/*`` records accuracies of networks that bench.modelnet10 has trained
instead, without and with each change, on the clouds that it evaluates: that of ``mds`` with each
kind, others as trained. All see the same clouds, changed upright, and then rotated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.interleaved import all_rounds, medians
from bench.modelnet10 import Trained, shown
from bench.recorder import Record, parsed
from equigeo import mds
from equigeo.points import PointNetPlusPlus, gather_rows
from equigeo.tasks.common.measures import cloud_copies
from equigeo.tasks.pointcloud.task import load_clouds

QUIET = mds.EmbedOptions(fallback="ignore")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "skew": ("skew", {}),
    "skew, robust": ("skew", {"robust": True}),
    "joint": ("joint", {}),
    "frames": ("frames", {}),
    "soft": ("soft", {}),
    "anchor": ("anchor", {"max_frames": 16}),
    "weighted": ("weighted", {}),
    "weighted, robust": ("weighted", {"robust": True}),
    "weighted, robust, softness 0.2": ("weighted", {"robust": True, "softness": 0.2}),
}
RANDOM = ("noise", "half", "copies")  # changes that stability is meant for
AT_A_TIME = 64


def kept(x: Tensor, score: Tensor, count: int) -> Tensor:
    """Points with the lowest scores."""
    return gather_rows(x, score.argsort(1)[:, :count])


def direction(x: Tensor, g: torch.Generator, count: int = 1) -> Tensor:
    """Unit vectors (B, count, 3)."""
    u = torch.randn(len(x), count, 3, generator=g, dtype=x.dtype)
    return u / u.norm(dim=-1, keepdim=True)


def height(x: Tensor, g: torch.Generator) -> Tensor:
    """Coordinates along a random direction."""
    return ((x - x.mean(1, keepdim=True)) * direction(x, g)).sum(-1)


def noise(x: Tensor, g: torch.Generator) -> Tensor:
    return x + 0.02 * radius(x) * torch.randn(x.shape, generator=g, dtype=x.dtype)


def radius(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)).norm(dim=-1).amax(1)[:, None, None]


def half(x: Tensor, g: torch.Generator) -> Tensor:
    return kept(x, torch.rand(x.shape[:2], generator=g), x.shape[1] // 2)


def copies(x: Tensor, g: torch.Generator) -> Tensor:
    return torch.cat([x, kept(x, torch.rand(x.shape[:2], generator=g), x.shape[1] // 10)], 1)


def dense(x: Tensor, g: torch.Generator) -> Tensor:
    """One half of the points, by a plane, and a half of the others."""
    count = x.shape[1]
    rank = height(x, g).argsort(1).argsort(1)
    drop = torch.rand(x.shape[:2], generator=g)
    return kept(x, torch.where(rank < count // 2, drop - 2, drop), count - count // 4)


def outliers(x: Tensor, g: torch.Generator) -> Tensor:
    """Five points at one to two radii."""
    far = 1 + torch.rand(len(x), 5, 1, generator=g, dtype=x.dtype)
    return torch.cat([x, x.mean(1, keepdim=True) + radius(x) * far * direction(x, g, 5)], 1)


def cut(x: Tensor, g: torch.Generator) -> Tensor:
    return kept(x, height(x, g), x.shape[1] - x.shape[1] // 5)


CHANGES: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    change.__name__: change for change in (noise, half, copies, dense, outliers, cut)
}


def frames_of(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Frames (frames, B, 3, 3) and weights (frames, B)."""
    kind, changes = KINDS[name]
    options = replace(QUIET, **changes)
    if kind == "skew":
        frame = mds.embed(x, options=options).frame[None]
        return frame, torch.ones_like(frame[..., 0, 0])
    found = mds.frames(x, kind=kind, options=options)
    return found.frame, found.weight


def moved_weight(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> Tensor:
    """Weight (B,) that has no frame of the other cloud within 30 degrees."""
    (frame, weight), (other, theirs) = before, after
    near = torch.einsum("fbik,gbik->bfgk", frame, other).amin(-1).numpy()
    left, room = weight.T.numpy().copy(), theirs.T.numpy().copy()
    for cloud, closeness in enumerate(near):
        pairs = np.argwhere(closeness > np.cos(np.pi / 6))
        for f, g in pairs[np.argsort(-closeness[tuple(pairs.T)])]:
            shared = min(left[cloud, f], room[cloud, g])
            left[cloud, f] -= shared
            room[cloud, g] -= shared
    return torch.from_numpy(left.sum(1))


def measured(x: Tensor, name: str, draws: int) -> dict[str, Any]:
    """Weight that turns (draws, B) per change, number of frames (B,), stability (B,)."""
    turned: dict[str, list[list[Tensor]]] = {c: [[] for _ in range(draws)] for c in CHANGES}
    counts, stability = [], []
    robust = KINDS[name][1].get("robust", False)
    for number, part in enumerate(x.split(AT_A_TIME)):
        before = frames_of(part, name)
        counts.append((before[1] > 0).sum(0))
        options = replace(QUIET, robust=robust)
        stability.append(mds.embed(part, options=options).stability.amin(-1))
        for draw in range(draws):
            g = torch.Generator().manual_seed(1000 * number + draw)
            for change, apply in CHANGES.items():
                after = frames_of(apply(part, g), name)
                turned[change][draw].append(moved_weight(before, after))
    stacked = {c: torch.stack([torch.cat(p) for p in parts]) for c, parts in turned.items()}
    return {"turned": stacked, "frames": torch.cat(counts), "stability": torch.cat(stability)}


def threshold_of(found: dict[str, Any]) -> float:
    """Least stability of all but a tenth of the clouds that turn in no draw of random changes."""
    turned = torch.cat([found["turned"][change] for change in RANDOM])
    stable = found["stability"][(turned <= 0.5).all(0)]
    return float(stable.quantile(0.1)) if len(stable) else 0.0


def row(found: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Shares that turn, and that are flagged at a threshold."""
    flagged = found["stability"] < threshold
    changes = {}
    for change, weight in found["turned"].items():
        turns = weight > 0.5
        stable = ~turns.any(0)
        changes[change] = {
            "mean": float(weight.mean()),
            "clouds": float(turns.double().mean()),
            "flagged of turning": share(flagged.expand_as(turns)[turns]),
            "flagged of stable": share(flagged[stable]),
        }
    together = torch.cat([found["turned"][change] for change in RANDOM]) > 0.5
    return {
        "changes": changes,
        "noise, half and copies": {
            "stable": float((~together.any(0)).double().mean()),
            "flagged of turning": share(flagged.expand_as(together)[together]),
            "flagged of stable": share(flagged[~together.any(0)]),
        },
        "frames": float(found["frames"].double().mean()),
        "most frames": int(found["frames"].max()),
        "threshold": threshold,
    }


def share(which: Tensor) -> float | None:
    return float(which.double().mean()) if len(which) else None


def passes(x: Tensor, rounds: int) -> dict[str, Any]:
    """Seconds of a pass and of a training step of PointNet++ behind each kind, in turn."""
    torch.manual_seed(0)
    network = PointNetPlusPlus(10, groups=(128, 32), neighbors=20)
    calls: dict[str, Callable[[], Any]] = {}
    for name in ("skew", "weighted", "weighted, robust"):
        kind, changes = KINDS[name]
        for drawn in (False, True) if kind != "skew" else (False,):
            options = replace(QUIET, **changes, training_sample=drawn)
            model = mds.Invariant(network, kind=kind, options=options)
            label = name + ", one drawn" * drawn
            calls[f"{label}: forward and backward"] = partial(step, model, x)
            if not drawn:
                calls[f"{label}: forward"] = torch.no_grad()(lambda m=model: m.eval()(x))
    seconds = all_rounds(calls, rounds)
    middle = medians(seconds)
    ratios = {
        name: value / middle[f"skew: {name.rsplit(': ', 1)[1]}"] for name, value in middle.items()
    }
    return {"seconds": middle, "against skew": ratios, "seconds of rounds": seconds}


def step(model: mds.Invariant, x: Tensor) -> None:
    model.train()(x).square().mean().backward()
    model.zero_grad()


def accuracies(file: Path, data: Path, name: str, draws: int) -> dict[str, Any]:
    """Means over draws, by pose and change."""
    trained, poses = Trained.load(file), ["rotated", "upright"]
    if name in KINDS:
        layer, poses = trained.model.invariant, ["rotated"]
        layer.kind, layer.options = KINDS[name][0], replace(layer.options, **KINDS[name][1])
    clouds = load_clouds(replace(trained.config, data=str(data))).evaluated
    changes = {"none": lambda x, _: x, **CHANGES}
    right = {pose: dict.fromkeys(changes, 0.0) for pose in poses}
    for start in range(0, len(clouds), AT_A_TIME):
        part = slice(start, start + AT_A_TIME)
        for draw in range(draws):
            g = torch.Generator().manual_seed(1000 * start + draw)
            for change, apply in changes.items():
                x = apply(clouds.points[part].double(), g)
                for pose in poses:
                    seen = x if pose == "upright" else cloud_copies(x, pose, start)
                    found = trained.logits(seen.float()).argmax(1) == clouds.labels[part]
                    right[pose][change] += int(found.sum()) / (draws * len(clouds))
    return {"train": shown(trained.config), "clouds": len(clouds), "accuracy": right}


def record_accuracies(arguments: argparse.Namespace) -> None:
    """Evaluate each run, that of ``mds`` with each kind."""
    record, draws = Record.series(arguments, "draws"), arguments.draws
    for file in (folder / "model.ckpt" for folder in arguments.accuracy):
        own = getattr(Trained.load(file).model.config, "group", None) != "O"
        for name in ["as trained"] if own else arguments.kinds:
            key = {"run": "/".join(file.parts[-3:-1]), "kind": name}
            found = record.keep(key, partial(accuracies, file, arguments.data, name, draws))
            print(*key.values(), found["accuracy"], flush=True)


def loaded(file: Path, every: slice) -> Tensor:
    with np.load(file) as data:
        return torch.from_numpy(data["points"][every].astype(np.float64)) / 32767


def main() -> None:
    """Measure each kind and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of ModelNet10 as points")
    parser.add_argument("--split", choices=("test", "held-out"), default="test")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--every", type=int, default=32, help="held-out training clouds")
    parser.add_argument("--steps", type=int, default=0, help="rounds of timed passes")
    parser.add_argument("--accuracy", type=Path, nargs="+", help="folders of trained networks")
    arguments = parsed(parser, series=True, threads=0)
    if arguments.accuracy:
        return record_accuracies(arguments)
    train = arguments.data / "modelnet10_train.npz"
    aside = loaded(train, slice(0, None, arguments.every))
    if arguments.split == "test":
        x = loaded(arguments.data / "modelnet10_test_a.npz", slice(None))
    else:
        x = loaded(train, slice(arguments.every // 2, None, arguments.every))
    counts = {"clouds": len(x), "held out": len(aside), "draws": arguments.draws}
    settings = {"split": arguments.split} | counts
    record = Record(arguments.output, settings=settings, resume=arguments.resume)

    def one_run(name: str, draws: int = arguments.draws) -> dict[str, Any]:
        return row(measured(x, name, draws), threshold_of(measured(aside, name, draws)))

    for name in arguments.kinds:
        run = record.keep({"kind": name}, partial(one_run, name))
        shares = {c: round(v["clouds"], 3) for c, v in run["changes"].items()}
        print(name, round(run["frames"], 2), shares, flush=True)
    if arguments.steps:
        clouds = x[:32].float()
        record.keep({"kind": "passes"}, partial(passes, clouds, arguments.steps))


if __name__ == "__main__":
    main()
