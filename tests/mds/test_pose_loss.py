import pytest
import torch
from torch import nn

from equigeo.groups import SO
from equigeo.mds import Canonicalized, pose_loss
from equigeo.reps import Points
from tests.mds.clouds import generator


def upright(count, seed):
    """Clouds that stand: tall, with a heavy foot."""
    x = torch.randn(count, 24, 2, generator=generator(seed), dtype=torch.float64)
    x = x * torch.tensor([0.3, 1.0]).double()
    x[..., 1] = x[..., 1] - 0.4 * x[..., 1].square()
    return x


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.points = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.pooled = nn.Linear(16, 1)
        self.double()

    def forward(self, x):
        return self.pooled(self.points(x).mean(-2))[..., 0]


def trained(steps, count):
    energy, draws, losses = Energy(), generator(1), []
    optimizer = torch.optim.Adam(energy.parameters(), 2e-2)
    for step in range(steps):
        loss = pose_loss(energy, Points(SO(2)), upright(count, step), generator=draws)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return energy, losses


def test_pose_loss_falls_in_a_few_steps():
    _, losses = trained(steps=25, count=16)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.full
def test_a_learned_energy_brings_clouds_upright():
    rep, (energy, losses) = Points(SO(2)), trained(steps=150, count=64)
    assert losses[-1] < 0.5 * losses[0]
    model = Canonicalized(nn.Identity(), energy.requires_grad_(False), rep, starts=8)
    x = upright(50, 1000)
    turns = SO(2).haar(50, generator=generator(2))
    element = model.elements(rep.act(turns[:, None], x)) @ turns
    # What turns a turned cloud back turns the cloud hardly: a cosine of one.
    assert float(element[:, 0, 0].median()) > 0.95
    assert float((element[:, 0, 0] > 0.8).double().mean()) > 0.9
