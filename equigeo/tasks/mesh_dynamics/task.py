"""Configuration, data, fit, evaluation and command-line task of dynamics on meshes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields, shown
from equigeo._core.checks import check_shape, checked_integer
from equigeo._core.config import within
from equigeo.datasets.dynamics import (
    STATES,
    Equation,
    MeshTrajectories,
    Tessellation,
    mesh_dynamics,
)
from equigeo.groups import O
from equigeo.mesh import TriangleMesh
from equigeo.nn.module import evaluating
from equigeo.reps import Irreps
from equigeo.tasks.common.arguments import Argument, natural, number, positive
from equigeo.tasks.mesh_dynamics.model import DynamicsModel, DynamicsModelConfig, SurfaceStates
from equigeo.tasks.task import Evaluation, EvaluationOutput, Task
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch, LabelledSource
from equigeo.training.objective import FitPlan, Objective
from equigeo.training.process import enter_stream
from equigeo.training.trained_model import TrainedModel

SIMULATED: Final = "simulated"
DYNAMICS_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=40, batch_size=8, learning_rate=3e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, jitter=0.003, clip_norm=1.0,
    ),
}  # fmt: skip
_HOPS = 2  # of the training meshes, which a block reads
_VALIDATION, _TEST = 1_000_000, 2_000_000  # first trajectories
_FEW = 4  # trajectories of a validation


@dataclass(frozen=True)
class DynamicsConfig(RunConfig):
    """Configuration of a run on mesh dynamics, saved as ``config.json``.

    Parameters
    ----------
    data : {"simulated"}
        Trajectories of :func:`equigeo.datasets.mesh_dynamics` on octahedral tessellations. They
        are the same for every seed of a run, as those of a published data set would be.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; jitter is the deviation of noise on states, in root mean squares of
        their components, which the target corrects.
    preset : {"default"}, model and recipe
    equation : {"heat", "wave", "sheet"}
    trajectories, steps : int
        Training trajectories, and states of each after the first.
    faces : {32, 128, 512, 2048}

    Examples
    --------
    >>> config = DynamicsConfig(equation="sheet", faces=128)
    >>> DynamicsConfig.from_dict(config.to_dict()) == config
    True
    """

    data: str = SIMULATED
    recipe: Recipe = DYNAMICS_RECIPES["default"]
    preset: Literal["default"] = "default"
    equation: Equation = "heat"
    trajectories: int = within(1, 100_000, default=48)
    steps: int = within(1, 10_000, default=20)
    faces: int = within(32, 2048, default=512)

    recipes: ClassVar[Mapping[str, Recipe]] = DYNAMICS_RECIPES
    unused: ClassVar[tuple[str, ...]] = (
        *RunConfig.unused, "label_smoothing", "logit_adjustment", "update_bn",
    )  # fmt: skip
    samples: ClassVar[str] = "trajectories"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data != SIMULATED:
            raise ValueError(f"data must be {SIMULATED}, got {shown(self.data)}")
        if self.faces not in (32, 128, 512, 2048):
            raise ValueError(f"faces must be 32, 128, 512 or 2048, got {self.faces}")

    def simulate(
        self, first: int, number: int, *, finer: int = 1, kind: Tessellation = "octahedral"
    ) -> MeshTrajectories:
        """Simulate trajectories on ``finer`` times the faces."""
        return mesh_dynamics(
            self.equation, number=number, faces=finer * self.faces, steps=self.steps,
            tessellation=kind, first=first,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Transitions(LabelledSource):
    """States of trajectories on meshes of as many vertices, with the next states as labels."""

    starts: tuple[SurfaceStates, ...]  # one per trajectory
    states: Tensor  # (trajectories, steps + 1, vertices, dim)
    noise: Tensor  # (dim,) deviations
    labels: Tensor = field(init=False, repr=False)

    smallest = 1
    __repr__ = brief_fields

    def __post_init__(self) -> None:
        """Set the next states (samples, vertices, dim)."""
        object.__setattr__(self, "labels", self.states[:, 1:].flatten(0, 1))

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> SurfaceStates:
        steps = self.states.shape[1] - 1
        parts = []
        for k in chosen.tolist():
            state = self.states[k // steps, k % steps]
            if generator is not None:
                state = state + self.noise * torch.randn(state.shape, generator=generator)
            parts.append(self.starts[k // steps].with_state(state))
        return SurfaceStates.batch(parts)


@dataclass(frozen=True)
class NextState(Objective):
    """Mean square of the errors of next states over the size of changes."""

    scales: tuple[float, ...] = (1.0,)  # of changes, per component

    measure, form, evaluated = "error", ".3f", "rollout_error"
    __repr__ = brief_fields

    def sums(self, model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, Tensor]:
        found = model(batch.inputs)
        errors = (found - batch.labels.flatten(0, 1)) / found.new_tensor(self.scales)
        squares = errors.square().unflatten(0, batch.labels.shape[:2]).mean((1, 2))
        return squares.sum(), squares.detach().sqrt().sum()


def _sizes(values: Tensor, equation: Equation) -> tuple[float, ...]:
    """Return root mean squares of components (..., dim), equal within a vector."""
    squares = values.square().flatten(0, -2).mean(0)
    width = 3 if equation == "sheet" else 1
    means = squares.unflatten(0, (-1, width)).mean(1, keepdim=True).expand(-1, width)
    return tuple(means.sqrt().clamp_min(1e-9).flatten().tolist())


@torch.no_grad()
def rollout(model: DynamicsModel, mesh: TriangleMesh, state: Tensor, steps: int) -> Tensor:
    """Predict states on a mesh from the first one, each from the one before.

    Parameters
    ----------
    model : DynamicsModel
        Such as the ``model`` of a :class:`TrainedDynamics`; computes on its device in its dtype.
    mesh : TriangleMesh
        That of a sheet is at rest.
    state : Tensor, (vertices, dim)
        See :class:`equigeo.datasets.MeshTrajectories`.
    steps : int
        Steps of the length of the simulation that the model was trained on.

    Returns
    -------
    Tensor, (steps + 1, vertices, dim), float64, on the CPU
        The given state and the predicted ones.

    Raises
    ------
    ValueError
        If the state has another shape or ``steps`` is negative.

    Examples
    --------
    >>> data = mesh_dynamics("heat", number=1, faces=32, steps=1)
    >>> model = MeshDynamics().preset_model(DynamicsConfig(faces=32))  # not trained
    >>> rollout(model, data.meshes[0], data.states[0][0], steps=5).shape
    torch.Size([6, 18, 1])
    """
    checked_integer("steps", steps, 0)
    check_shape(state, "state", (mesh.num_vertices, model.rep_out.dim))
    with evaluating(model):
        now = _start(model, mesh, state)
        found = [now.state]
        for _ in range(steps):
            now = now.with_state(model(now))
            found.append(now.state)
    return torch.stack(found).cpu().double()


def _start(model: DynamicsModel, mesh: TriangleMesh, state: Tensor) -> SurfaceStates:
    """Return a state on a mesh, as the model reads it."""
    parameter = next(model.parameters())
    given = SurfaceStates.of(mesh, model.config.reach, state.to(parameter.dtype))
    return given.to(parameter.device)


@torch.no_grad()
def _one_step(model: DynamicsModel, mesh: TriangleMesh, states: Tensor) -> Tensor:
    """Predict the next state of each state but the last, (steps, vertices, dim)."""
    with evaluating(model):
        start = _start(model, mesh, states[0])
        after = [model(start.with_state(state)) for state in states[:-1].to(start.state)]
    return torch.stack(after).cpu().double()


def relative_error(found: list[Tensor], want: list[Tensor], still: list[Tensor]) -> float:
    """Return the error of predictions over that of states without change, in mean squares."""
    error, change = (
        torch.stack([(a - b).square().mean((0, 1)) for a, b in zip(x, want, strict=True)]).mean(0)
        for x in (found, still)
    )
    return float((error / change).mean().sqrt())


def _errors(data: MeshTrajectories, model: DynamicsModel) -> dict[str, float]:
    """Return the errors of one step and of rollouts, relative to no change."""
    pairs = list(zip(data.meshes, data.states, strict=True))
    after = [_one_step(model, mesh, states) for mesh, states in pairs]
    want = [states[1:] for states in data.states]
    one_step = relative_error(after, want, [states[:-1] for states in data.states])
    found = [rollout(model, mesh, states[0], len(states) - 1) for mesh, states in pairs]
    still = [states[:1].expand_as(states) for states in data.states]
    whole = relative_error(found, list(data.states), still)
    return {"one_step_error": one_step, "rollout_error": whole}


class TrainedDynamics(TrainedModel[DynamicsConfig]):
    """Trained model of dynamics, as ``equigeo evaluate`` loads it."""

    task, what, config_type = "mesh-dynamics", "model of dynamics", DynamicsConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return DynamicsModel.from_config(model)


@dataclass(frozen=True)
class DynamicsResult:
    """Errors on new trajectories, relative to those of a model that predicts no change."""

    meshes: str
    faces: int
    one_step: float
    rollout: float  # over all steps, from the first state alone

    __repr__ = brief_fields


@dataclass(frozen=True, repr=False)
class DynamicsEvaluation(Evaluation):
    """Errors on the tessellation of the training meshes, on others, and on finer ones."""

    equation: str
    steps: int
    trajectories: int
    results: list[DynamicsResult]
    turned: (
        float  # largest change of a rollout on a moved and reflected mesh, over the largest state
    )


_MESHES: Final[tuple[tuple[str, int, Tessellation], ...]] = (
    ("as in training", 1, "octahedral"),
    ("relaxed", 1, "relaxed"),
    ("stretched", 1, "stretched"),
    ("10 times the faces", 10, "relaxed"),
)


def evaluate_mesh_dynamics(
    trained: TrainedDynamics, *, trajectories: int = 4, seed: int = 0
) -> DynamicsEvaluation:
    """Predict new trajectories on the tessellation of the training meshes and on others.

    Each kind of mesh has its own simulation, whose error of discretization differs from that of
    the training meshes. Errors on other meshes therefore contain this difference: a model that
    reproduces its training simulation exactly does not reach zero on them.

    Parameters
    ----------
    trajectories : int
        New trajectories per kind of mesh.
    seed : int, of the motion of the mesh

    Examples
    --------
    >>> config = DynamicsConfig(faces=32, steps=2)
    >>> model = MeshDynamics().preset_model(config).eval()  # not trained
    >>> trained = TrainedDynamics(model, (), config, "0.3.0")
    >>> [result.faces for result in evaluate_mesh_dynamics(trained, trajectories=1).results]
    [32, 32, 32, 320]
    """
    if trajectories < 1:
        raise ValueError(f"trajectories must be positive, got {trajectories}")
    config, model = trained.config, trained.model
    results = []
    for name, finer, kind in _MESHES:
        data = config.simulate(_TEST, trajectories, finer=finer, kind=kind)
        errors = _errors(data, model)
        results.append(DynamicsResult(name, finer * config.faces, *errors.values()))
    return DynamicsEvaluation(
        config.equation, config.steps, trajectories, results, _turned(trained, seed)
    )


def _turned(trained: TrainedDynamics, seed: int) -> float:
    """Return the largest relative change of a rollout on a moved mesh, turned back."""
    data = trained.config.simulate(_TEST, 1)
    generator = torch.Generator().manual_seed(seed)
    g = -O(3).sample(1, generator=generator)[0].double()
    place = torch.eye(4, dtype=torch.float64)
    place[:3, :3], place[:3, 3] = g, 1.0
    irreps = Irreps(STATES[data.equation])
    mesh, state, steps = data.meshes[0], data.states[0][0], trained.config.steps
    want = rollout(trained.model, mesh, state, steps)
    found = rollout(trained.model, mesh.act(place), irreps.act(g, state), steps)
    return float((irreps.act(g.mT, found) - want).abs().max() / want.abs().max())


class MeshDynamics(Task[DynamicsConfig, MeshTrajectories, TrainedDynamics]):
    """Predict dynamics on meshes after training on simulated trajectories.

    Examples
    --------
    >>> MeshDynamics().name
    'mesh-dynamics'
    """

    help = "predict heat, waves or elastic sheets on meshes after training on simulations"
    train_arguments = (
        Argument("--seed", "seed of everything random but the simulated data, which are the same"
                 " for every seed (default: 0)", natural, metavar="N"),
        Argument("--jitter", "deviation of the noise on states", number, metavar="X",
                 unit="root mean squares of their components"),
        Argument("--equation", "what is simulated (default: heat)", choices=tuple(STATES)),
        Argument("--trajectories", "training trajectories (default: 48)", positive, metavar="N",
                 unit="trajectories"),
        Argument("--steps", "steps per trajectory (default: 20)", positive, metavar="N",
                 unit="steps"),
        Argument("--faces", "faces of the training meshes: 32, 128, 512 or 2048 (default: 512)",
                 positive, metavar="N", unit="faces"),
    )  # fmt: skip
    evaluate_arguments = (
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        Argument("--trajectories", "new trajectories per kind of mesh (default: 4)", positive,
                 metavar="N", unit="trajectories"),
    )  # fmt: skip
    measures = {  # noqa: RUF012
        "one_step_error": "error of one step {value:.4f} of the change",
        "rollout_error": "error of rollouts {value:.4f} of the change",
    }
    trained_type = TrainedDynamics

    def resolve_data(self, data: str | None) -> str:
        return DynamicsConfig.data if data is None else super().resolve_data(data)

    def load(self, config: DynamicsConfig) -> MeshTrajectories:
        return config.simulate(0, config.trajectories)

    def describe(self, config: DynamicsConfig, data: MeshTrajectories) -> str:
        return (
            f"{len(data)} trajectories of {config.equation} with {config.steps} steps of "
            f"{data.step:g}, {config.faces} faces, {config.preset} preset"
        )

    def plan(self, config: DynamicsConfig, data: MeshTrajectories, model: Any = None) -> FitPlan:
        states = torch.stack(data.states)
        sizes = _sizes(states, config.equation)
        changes = _sizes(states.diff(dim=1), config.equation)
        if model is None:
            enter_stream(config.seed, "model")
            model = self.preset_model(config, state_scales=sizes, change_scales=changes)
        reach = model.config.reach
        states = states.to(torch.get_default_dtype())
        starts = tuple(
            SurfaceStates.of(mesh, reach, first[0])
            for mesh, first in zip(data.meshes, states, strict=True)
        )
        noise = config.recipe.jitter * torch.tensor(sizes)
        source = Transitions(starts, states, noise)
        validation = config.simulate(_VALIDATION, _FEW)
        evaluate = partial(_errors, validation)
        return FitPlan(config, model, (), source, NextState(changes), evaluate)

    def preset_model(
        self, config: DynamicsConfig, num_classes: int = 2, **changes: Any
    ) -> DynamicsModel:
        # Edges of equilateral triangles that cover the unit sphere.
        edge = (4 * 3**-0.5 * 4 * torch.pi / config.faces) ** 0.5
        return DynamicsModel(DynamicsModelConfig(config.equation, reach=_HOPS * edge, **changes))

    def evaluate(self, trained: TrainedDynamics, options: argparse.Namespace) -> EvaluationOutput:
        evaluation = evaluate_mesh_dynamics(
            trained, trajectories=options.trajectories or 4, seed=options.seed or 0
        )
        return EvaluationOutput(_text(evaluation), evaluation.to_dict())


def _text(evaluation: DynamicsEvaluation) -> str:
    lines = [
        f"{evaluation.trajectories} new trajectories of {evaluation.equation}, "
        f"{evaluation.steps} steps; errors relative to no change",
        f"{'meshes':<18}  {'faces':>6}  {'one step':>8}  {'rollout':>8}",
    ]
    lines += [
        f"{result.meshes:<18}  {result.faces:>6}  {result.one_step:8.4f}  {result.rollout:8.4f}"
        for result in evaluation.results
    ]
    lines += [
        "on other meshes than those in training, errors contain the difference of discretization",
        "",
        f"largest change on a moved and reflected mesh  {evaluation.turned:.1e}",
    ]
    return "\n".join(lines)
