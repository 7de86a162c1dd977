import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from equigeo.cli.main import main
from equigeo.datasets import mesh_dynamics
from equigeo.mesh import TriangleMesh
from equigeo.reps import Irreps
from equigeo.tasks.mesh_dynamics import (
    DynamicsConfig,
    DynamicsModel,
    DynamicsModelConfig,
    MeshDynamics,
    SurfaceStates,
    TrainedDynamics,
    evaluate_mesh_dynamics,
    rollout,
)
from equigeo.tasks.mesh_dynamics.task import relative_error
from equigeo.testing import assert_equivariant, tolerance
from tests.mesh import shapes
from tests.wrong_inputs import refused

SMALL = {"scalars": 6, "vectors": 3, "heads": 2, "blocks": 2, "reach": 0.8}
EQUATIONS = {"heat": "0e", "wave": "2x0e", "sheet": "2x1o"}
MESH = shapes.lumpy(shapes.octahedron(), 0, 0.2)


def network(equation: str, **options: object) -> DynamicsModel:
    torch.manual_seed(0)
    return DynamicsModel(DynamicsModelConfig(equation, **SMALL | options)).double()


def state(equation: str, vertices: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = vertices, Irreps(EQUATIONS[equation]).dim
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_states_turn_with_the_mesh(equation: str) -> None:
    model, rep = network(equation), Irreps(EQUATIONS[equation])

    def predict(mesh: TriangleMesh, now: Tensor) -> Tensor:
        return model(SurfaceStates.of(mesh, 0.8, now))

    inputs = [MESH, state(equation)]
    assert_equivariant(predict, [None, rep], rep, inputs=inputs, condition=256.0)

    def with_a_direction(mesh: TriangleMesh, now: Tensor) -> Tensor:
        given = SurfaceStates.of(mesh, 0.8, now)
        return model(replace(given, step=given.step * torch.tensor([1.0, 1.0, 2.0]).to(now)))

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(with_a_direction, [None, rep], rep, inputs=inputs, condition=256.0)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_place_and_order_of_vertices_and_other_meshes_do_not_matter(equation: str) -> None:
    model, now = network(equation), state(equation)
    given = SurfaceStates.of(MESH, 0.8, now)
    want, close = model(given), tolerance(torch.float64, 256)
    assert (want - now).abs().max() > 0.01
    moved = SurfaceStates.of(TriangleMesh(MESH.vertices + 3, MESH.faces), 0.8, now)
    torch.testing.assert_close(model(moved), want, **close)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    renamed = TriangleMesh(MESH.vertices[order], order.argsort()[MESH.faces])
    found = model(SurfaceStates.of(renamed, 0.8, now[order]))
    torch.testing.assert_close(found, want[order], **close)
    other = SurfaceStates.of(shapes.icosahedron(), 0.8, state(equation, 12))
    both = model(SurfaceStates.batch([other, given]))
    torch.testing.assert_close(both, torch.cat([model(other), want]), **close)


def test_a_displaced_sheet_moves_as_it_does_elsewhere() -> None:
    model, now = network("sheet"), state("sheet")
    moved = now + torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    want, found = (model(SurfaceStates.of(MESH, 0.8, x)) - x for x in (now, moved))
    torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)  # rounding of 3 times a hundred


def test_neighborhoods_have_a_length_on_every_mesh() -> None:
    kinds = (("octahedral", 128), ("relaxed", 128), ("relaxed", 1280))
    sizes = []
    for kind, faces in kinds:
        data = mesh_dynamics("heat", number=1, faces=faces, steps=1, tessellation=kind)
        given = SurfaceStates.of(data.meshes[0], 1.0, data.states[0][0])
        sizes.append(given.step.norm(dim=1).max().item())
        assert given.weight.exp().mean().item() == pytest.approx(1, abs=0.1)  # of unequal degrees
    assert max(sizes) < 1.7 * min(sizes)


def test_errors_are_those_relative_to_no_change() -> None:
    want = [torch.randn(4, 5, 2, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    still = [states[:1].expand_as(states) for states in want]
    half = [(a + b) / 2 for a, b in zip(want, still, strict=True)]
    assert relative_error(want, want, still) == 0
    assert relative_error(still, want, still) == pytest.approx(1)
    assert relative_error(half, want, still) == pytest.approx(0.5)


def test_a_rollout_repeats_single_steps() -> None:
    model, now = network("wave"), state("wave")
    found = rollout(model, MESH, now, steps=2)
    start = SurfaceStates.of(MESH, 0.8, now)
    first = model(start)
    assert torch.equal(found, torch.stack([now, first, model(start.with_state(first))]))
    assert not found.requires_grad
    assert model.training
    assert torch.equal(rollout(model, MESH, now, steps=0), now[None])
    refused("steps must be at least 0", rollout, model, MESH, now, -1)
    refused(r"state must be \(6, 2\)", rollout, model, MESH, state("heat"), 1)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_coarse_simulation_has_errors_on_finer_meshes_that_fall(equation: str) -> None:
    *coarse, fine = (mesh_dynamics(equation, number=1, faces=n) for n in (32, 128, 512))
    errors = []
    for data in coarse:  # whose vertices are the first ones of the finer meshes
        vertices = data.meshes[0].num_vertices
        shared = fine.meshes[0].vertices[:vertices]
        torch.testing.assert_close(data.meshes[0].vertices, shared, **tolerance(torch.float64))
        want = fine.states[0][:, :vertices]
        errors.append(relative_error([data.states[0]], [want], [want[:1].expand_as(want)]))
    assert 0 < errors[1] < errors[0] < 2


def test_simulations_are_the_same_for_every_seed() -> None:
    small = DynamicsConfig(trajectories=1, steps=1, faces=32)
    one, other = (MeshDynamics().load(replace(small, seed=seed)) for seed in (0, 1))
    assert torch.equal(one.states[0], other.states[0])


def test_noise_is_on_inputs_alone_and_repeats() -> None:
    config = DynamicsConfig(equation="wave", trajectories=2, steps=3, faces=32)
    task = MeshDynamics()
    data = task.load(config)
    source = task.plan(config, data).train
    assert len(source) == 6
    chosen, clean = [1, 5], source.batch([1, 5])
    assert torch.equal(
        clean.inputs.state, torch.cat([data.states[0][1], data.states[1][2]]).float()
    )
    assert torch.equal(clean.labels[1], data.states[1][3].float())
    draws = [source.batch(chosen, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(draws[0].inputs.state, draws[1].inputs.state)
    assert not torch.equal(draws[0].inputs.state, draws[2].inputs.state)
    assert torch.equal(draws[0].labels, clean.labels)
    noise = (draws[0].inputs.state - clean.inputs.state).std().item()
    assert 0 < noise < 5 * config.recipe.jitter


def test_a_run_learns_is_saved_and_evaluated(tmp_path, capsys) -> None:
    run, results = tmp_path / "run", tmp_path / "found.json"
    words = "--equation sheet --trajectories 4 --steps 4 --faces 32 --epochs 4 --batch-size 4"
    assert main(["train", "mesh-dynamics", *words.split(), "--output", str(run)]) == 0
    assert "error of rollouts" in capsys.readouterr().out
    trained = TrainedDynamics.load(run / "model.ckpt")
    assert trained.history[-1]["loss"] < 0.8 * trained.history[0]["loss"]
    words = ["--trajectories", "1", "--json", str(results)]
    assert main(["evaluate", str(run / "model.ckpt"), *words]) == 0
    assert "10 times the faces     320" in capsys.readouterr().out
    found = json.loads(results.read_text())
    again = evaluate_mesh_dynamics(trained, trajectories=1)
    assert found == again.to_dict()
    assert [result.faces for result in again.results] == [32, 32, 32, 320]
    assert all(0 < result.one_step < 1 for result in again.results)
    assert again.turned < 1e-4  # rounding of four float32 steps


def test_what_does_not_fit_is_named() -> None:
    refused("faces must be 32, 128, 512 or 2048", DynamicsConfig, faces=100)
    refused("data must be simulated", DynamicsConfig, data="x")
    refused("state_scales must have 2 entries for wave", network, "wave", state_scales=(1.0,))
    given = SurfaceStates.of(MESH, 0.8, state("wave"))
    refused(r"state must be \(6, 1\)", network("heat"), given)
    refused(r"state must be \(6, dim\)", SurfaceStates.of, MESH, 0.8, state("wave", 5))
    for reach in (0.0, float("nan"), float("inf")):
        refused("reach must be positive and finite", SurfaceStates.of, MESH, reach, state("wave"))
    trained = TrainedDynamics(network("heat"), (), DynamicsConfig(), "0")
    refused("trajectories must be positive", evaluate_mesh_dynamics, trained, trajectories=0)
