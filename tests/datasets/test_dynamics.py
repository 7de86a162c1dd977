from typing import Any

import numpy as np
import pytest
import torch

from equigeo.datasets import mesh_dynamics
from equigeo.datasets.dynamics import Sheet, cotangent_matrices, run_heat, run_wave
from equigeo.datasets.regression import unit_sphere
from equigeo.datasets.shapes.surface import surface_defect
from tests.mesh import shapes
from tests.wrong_inputs import refused

KINDS = ("octahedral", "relaxed", "stretched")
HARMONICS = {1: lambda x, y, z: z, 2: lambda x, y, z: x * y, 3: lambda x, y, z: x * y * z}
TIME = 0.1


def decay_error(l: int, subdivisions: int) -> float:
    """Error at a time relative to the solution, in mean squares, with time steps as h squared."""
    ball = unit_sphere(subdivisions)
    u = HARMONICS[l](*ball.vertices.numpy().T)[:, None]
    stiffness, mass = cotangent_matrices(ball)
    *_, found = run_heat(stiffness, mass, u, TIME, 1, parts=4**subdivisions)
    want = np.exp(-l * (l + 1) * TIME) * u
    return float(np.sqrt(mass @ (found - want) ** 2 / (mass @ want**2))[0])


@pytest.mark.parametrize("l", HARMONICS)
def test_heat_on_a_sphere_decays_as_spherical_harmonics_to_second_order(l: int) -> None:
    errors = [decay_error(l, k) for k in (2, 3, 4)]
    assert errors[-1] < 0.01
    orders = -np.diff(np.log2(errors))
    assert (abs(orders - 2) < 0.2).all(), orders


@pytest.mark.parametrize("kind", KINDS)
def test_the_laplacian_is_exact_for_constants_and_masses_add_up(kind: Any) -> None:
    (mesh,) = mesh_dynamics("heat", number=1, faces=128, steps=1, tessellation=kind).meshes
    stiffness, mass = cotangent_matrices(mesh)
    assert abs(stiffness - stiffness.T).max() == 0
    rounding = 1e-13 * abs(stiffness).max()  # sums of fewer than 100 entries
    assert abs(stiffness.sum(axis=1)).max() < rounding
    corners = mesh.vertices[mesh.faces]
    area = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(mass.sum(), area.norm(dim=1).sum().item() / 2, rtol=1e-13)  # a sum
    # Squared lengths of the gradients of the three coordinates add up to 2 in every face.
    energy = np.einsum("vi,vi->", mesh.vertices.numpy(), stiffness @ mesh.vertices.numpy())
    np.testing.assert_allclose(energy, 2 * mass.sum(), rtol=1e-12)  # sums


def test_heat_keeps_its_mean_and_falls_between_its_bounds() -> None:
    found = mesh_dynamics("heat", number=2, faces=128, steps=5, tessellation="relaxed")
    for mesh, states in zip(found.meshes, found.states, strict=True):
        _, mass = cotangent_matrices(mesh)
        means = mass @ states[:, :, 0].numpy().T / mass.sum()
        np.testing.assert_allclose(means, means[0], rtol=1e-11)  # solves of a well-posed system
        assert (states.std(1)[1:] < states.std(1)[:-1]).all()


def test_waves_conserve_energy_and_oscillate_at_the_frequency_of_the_sphere() -> None:
    found = mesh_dynamics("wave", number=1, faces=512, steps=40)
    stiffness, mass = cotangent_matrices(found.meshes[0])
    u, v = found.states[0].numpy().transpose(2, 0, 1)
    energy = (mass * v**2).sum(1) / 2 + (u * (stiffness @ u.T).T).sum(1) / 2
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)  # rounding of 160 solves
    kinetic = (mass * v**2).sum(1) / 2
    assert kinetic.max() > 1.5 * kinetic.min()  # or nothing would have moved
    ball = unit_sphere(3)
    start = np.stack([ball.vertices[:, 2].numpy(), np.zeros(258)], axis=1)
    *_, end = run_wave(*cotangent_matrices(ball), start, np.pi / 2**0.5, 1, parts=200)
    np.testing.assert_allclose(end[:, 0], -start[:, 0], atol=2e-2)  # half a period; h^2 is 0.03


def test_forces_of_a_sheet_are_the_slope_of_its_energy_and_add_up_to_nothing() -> None:
    sheet, random = Sheet(shapes.lumpy(shapes.icosahedron(), 0, 0.2)), np.random.default_rng(0)
    x = sheet.rest + 0.1 * random.normal(size=sheet.rest.shape)
    forces, along, h = sheet.forces(x), random.normal(size=x.shape), 1e-5
    slope = (sheet.energy(x + h * along) - sheet.energy(x - h * along)) / (2 * h)
    np.testing.assert_allclose(-(forces * along).sum(), slope, rtol=1e-7)  # h^2 and rounding / h
    assert abs(forces).max() > 0.01
    rounding = 1e-13  # sums of a hundred terms of at most one
    np.testing.assert_allclose(forces.sum(0), 0, atol=rounding)
    np.testing.assert_allclose(np.cross(x, forces).sum(0), 0, atol=rounding)
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    for matrix in (turn, -turn):
        moved = sheet.forces(x @ matrix.T + 5)
        np.testing.assert_allclose(moved, forces @ matrix.T, atol=1e-12)  # rounding at 5
        rigid = sheet.forces(sheet.rest @ matrix.T + 5)
        np.testing.assert_allclose(rigid, 0, atol=1e-12)  # the same
    assert abs(sheet.forces(1.1 * sheet.rest)).max() > 0.01


def test_sheets_conserve_energy_and_momentum() -> None:
    found = mesh_dynamics("sheet", number=1, faces=128, steps=20, tessellation="relaxed")
    sheet = Sheet(found.meshes[0])
    moved, v = found.states[0].numpy()[:, :, :3], found.states[0].numpy()[:, :, 3:]
    kinetic = (sheet.mass[:, None] * v**2).sum((1, 2)) / 2
    energy = kinetic + [sheet.energy(sheet.rest + x) for x in moved]
    np.testing.assert_allclose(energy, energy[0], rtol=5e-3)  # (w h)^2 of the fastest vibration
    assert kinetic.min() < 0.8 * kinetic[0]
    momentum = np.einsum("v,svi->si", sheet.mass, v)
    np.testing.assert_allclose(momentum, momentum[:1].repeat(21, 0), atol=1e-12)  # rounding


@pytest.mark.parametrize("kind", KINDS)
def test_surfaces_are_closed_and_the_same_in_every_tessellation(kind: Any) -> None:
    coarse = mesh_dynamics("wave", number=2, faces=512, steps=1, tessellation=kind)
    for mesh in coarse.meshes:
        assert mesh.num_faces == 512
        assert surface_defect(mesh.vertices.numpy(), mesh.faces.numpy(), 0) is None
    (mesh,) = mesh_dynamics("wave", number=1, faces=512, steps=1, first=1).meshes
    apart = torch.cdist(coarse.meshes[1].vertices, mesh.vertices).amin(1)
    assert apart.max() < 0.3  # an edge
    other = torch.cdist(coarse.meshes[0].vertices, mesh.vertices).amin(1)
    assert other.max() > apart.max()
    again = mesh_dynamics("wave", number=1, faces=512, steps=1, first=1, tessellation=kind)
    assert torch.equal(again.states[0], coarse.states[1])
    assert not torch.equal(again.states[0][0], coarse.states[0][0])


@pytest.mark.parametrize("kind", ["relaxed", "stretched"])
def test_surfaces_with_the_fewest_faces_enclose_their_center(kind: Any) -> None:
    found = mesh_dynamics("heat", number=20, faces=32, steps=1, tessellation=kind)
    for mesh in found.meshes:
        vertices, faces = mesh.vertices.numpy(), mesh.faces.numpy()
        assert surface_defect(vertices, faces, 0) is None
        volumes = np.linalg.det(vertices[faces])  # of tetrahedra with the center
        assert (volumes > 0).all()
    for faces in (8, 10, 30):
        message = f"faces of a {kind} mesh must be at least 32, got {faces}"
        refused(message, mesh_dynamics, faces=faces, tessellation=kind)


def test_what_is_out_of_range_is_named() -> None:
    refused("equation must be one of heat, wave, sheet", mesh_dynamics, "fire")
    refused("tessellation must be one of", mesh_dynamics, tessellation="square")
    refused("octahedral mesh must be 8, 32", mesh_dynamics, faces=500)
    refused("faces must be even", mesh_dynamics, faces=501, tessellation="relaxed")
    for name, value in (("number", 0), ("steps", 0), ("seed", -1), ("first", -1)):
        refused(f"{name} must be at least", mesh_dynamics, **{name: value})
    refused("steps must be an integer", mesh_dynamics, steps=1.5, error=TypeError)
