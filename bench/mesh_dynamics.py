"""Errors of the network of mesh dynamics and of MeshGraphNet of equal size, after equal time.

    python -m bench.mesh_dynamics --minutes 20 --output bench/results/mesh_dynamics.json

Both are trained on the same trajectories, by the same recipe but for its length: the schedule
follows elapsed time. MeshGraphNet has as many channels as the parameters of ours allow. Errors of
one step and of rollouts are those of new trajectories, on the tessellation of the training meshes,
on two others, and at ten times the faces. Nothing is selected on them.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench.recorder import Record, going_on, parsed
from equigeo.datasets.dynamics import STATES
from equigeo.nn.state import SavedConfig
from equigeo.reps import Irreps
from equigeo.tasks.mesh_dynamics import (
    DYNAMICS_RECIPES,
    DynamicsConfig,
    DynamicsModelConfig,
    MeshDynamics,
    SurfaceStates,
    TrainedDynamics,
    evaluate_mesh_dynamics,
)

HOPS, STEPS = 2, 7  # edges that a block of ours reads, of which there are three, and messages
REACH = 0.2  # of an edge of the training meshes: attention_mask is one hop, on finer ones too


def network(width_in: int, width: int, width_out: int = 0) -> nn.Sequential:
    """Two hidden layers, and a layer norm where no other width is asked for."""
    last = nn.Linear(width, width_out or width)
    hidden = nn.Linear(width_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(*hidden, last, *([] if width_out else [nn.LayerNorm(width)]))


class MeshGraphNet(SavedConfig):
    """Pfaff et al. 2021: messages along the edges of the mesh; ``scalars`` are its channels."""

    config_type = DynamicsModelConfig
    state_scales: Tensor
    change_scales: Tensor

    def __init__(self, config: DynamicsModelConfig) -> None:
        super().__init__()
        self.config, self.rep_out = config, Irreps(STATES[config.equation])
        width, dim, self.is_sheet = config.scalars, self.rep_out.dim, config.equation == "sheet"
        for name in ("state_scales", "change_scales"):
            self.register_buffer(name, torch.tensor(getattr(config, name)), persistent=False)
        self.node = network(3 if self.is_sheet else dim, width)
        self.edge = network(8 if self.is_sheet else 4, width)
        self.on_edges = nn.ModuleList(network(3 * width, width) for _ in range(config.blocks))
        self.on_nodes = nn.ModuleList(network(2 * width, width) for _ in range(config.blocks))
        self.head = network(width, width, dim)

    def forward(self, given: SurfaceStates) -> Tensor:
        source, target = given.mask.edge_index
        now, steps = given.state / self.state_scales, [given.step]
        if self.is_sheet:  # displacements are read along edges alone
            now = now[:, 3:]
            steps.append(given.step + given.state[source, :3] - given.state[target, :3])
        lengths = [step.norm(dim=1, keepdim=True) for step in steps]
        x, e = self.node(now), self.edge(torch.cat(steps + lengths, 1) / self.config.reach * REACH)
        for on_edge, on_node in zip(self.on_edges, self.on_nodes, strict=True):
            e = e + on_edge(torch.cat([e, x[source], x[target]], 1))
            total = torch.zeros_like(x).index_add(0, target, e)
            x = x + on_node(torch.cat([x, total], 1))
        return given.state + self.head(x) * self.change_scales


class TrainedMeshGraphNet(TrainedDynamics):
    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return MeshGraphNet.from_config(model)


class Peer(MeshDynamics):
    """The task with MeshGraphNet."""

    trained_type = TrainedMeshGraphNet

    def preset_model(self, config: DynamicsConfig, num_classes: int = 2, **changes: Any) -> Any:
        ours = super().preset_model(config, **changes)
        edge = ours.config.reach / HOPS
        same = replace(ours.config, reach=REACH * edge, blocks=STEPS)
        networks = (MeshGraphNet(replace(same, scalars=width)) for width in range(4, 128))
        return max((n for n in networks if size(n) <= size(ours)), key=size)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


NETWORKS: dict[str, MeshDynamics] = {"ours": MeshDynamics(), "MeshGraphNet": Peer()}


def one_run(arguments: argparse.Namespace, name: str, config: DynamicsConfig) -> dict[str, Any]:
    """Train once, and evaluate on all kinds of meshes."""
    run = going_on(arguments, f"{name}-{config.equation}-{config.seed}")
    trained = NETWORKS[name].train(config, **run)
    found = evaluate_mesh_dynamics(trained, trajectories=arguments.test_trajectories)
    return {
        "errors": found.to_dict()["results"],
        "change of a moved rollout": found.turned,
        "parameters": size(trained.model),
        "epochs": trained.epochs_done,
        "seconds": trained.seconds,
        "threads": torch.get_num_threads(),
        "train": config.to_dict(),
        "model": trained.model.config.to_dict(),
    }


def main() -> None:
    """Run what is missing, and write after every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--equations", nargs="+", choices=tuple(STATES), default=tuple(STATES))
    parser.add_argument("--faces", type=int, default=512)
    parser.add_argument("--trajectories", type=int, default=DynamicsConfig.trajectories)
    parser.add_argument("--test-trajectories", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=20.0, help="of training")
    parser.add_argument("--runs", type=int, default=1, help="seeds")
    arguments = parsed(parser, work="runs/mesh_dynamics", required=True, threads=1)
    names = ("faces", "trajectories", "test_trajectories", "minutes", "threads")
    record = Record.series(arguments, *names)
    recipe = replace(
        DYNAMICS_RECIPES["default"], schedule="warm_cosine", warmup=100, epochs=10**5,
        minutes=arguments.minutes,
    )  # fmt: skip
    options = {"recipe": recipe, "faces": arguments.faces, "trajectories": arguments.trajectories}
    for seed in range(arguments.runs):
        for equation in arguments.equations:
            config = DynamicsConfig(equation=equation, seed=seed, **options)
            for name in NETWORKS:
                key = {"equation": equation, "network": name, "seed": seed}
                run = record.keep(key, partial(one_run, arguments, name, config))
                for row in run["errors"]:
                    print(equation, name, row, flush=True)


if __name__ == "__main__":
    main()
