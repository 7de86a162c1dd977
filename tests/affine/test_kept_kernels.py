"""Kernels that layers keep in evaluation mode: equal bits, and never those of other values."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from equigeo.affine import (
    AffineKernel,
    AffinePointNet,
    GroupConv,
    KernelSpec,
    LiftConv,
    PointGroupConv,
    ProjectConv,
    Quadrature,
    SeparableGroupConv,
)
from equigeo.affine.kernels import SirenKernel
from equigeo.groups import SO, GroupSamples, equidistant_rotations, finite_rotations

SPEC = KernelSpec(3, network="rbf")
TURNS = equidistant_rotations(4)
TURN = SO(2).from_coordinates(torch.tensor([[0.3]], dtype=torch.float64))[0]
CUBE = finite_rotations("tetrahedral")


def on_plane(layer: nn.Module, samples: GroupSamples = TURNS) -> Tensor:
    dtype = next((x.dtype for x in layer.parameters()), torch.float32)
    lead = (2, 2) if isinstance(layer, LiftConv) else (2, 2, len(samples))
    x = torch.randn(*lead, 6, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = layer(x, samples.to(dtype=dtype))
    return found if isinstance(layer, ProjectConv) else found[0]


def in_space(layer: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    x, cloud = (torch.randn(shape, generator=generator) for shape in ((2, 2, 12, 9), (2, 9, 3)))
    return layer(x, cloud, CUBE)[0]


def classified(model: nn.Module) -> Tensor:
    return model(torch.randn(2, 80, 3, generator=torch.Generator().manual_seed(1)))


LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "lift": (lambda: LiftConv(SO(2), 2, 3, SPEC), on_plane),
    "group": (lambda: GroupConv(SO(2), 2, 3, SPEC), on_plane),
    "separable": (lambda: SeparableGroupConv(SO(2), 2, 3, SPEC), on_plane),
    "project": (lambda: ProjectConv(SO(2), 2, 3, SPEC), on_plane),
    "points": (lambda: PointGroupConv(SO(3), 2, 3), in_space),
    "mixing of samples": (lambda: AffinePointNet.preset("default", 3), classified),
}


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """Kernel networks in the order of their calls."""
    found: list[nn.Module] = []
    forward = AffineKernel.forward

    def counted(self: AffineKernel, *given: Any, **named: Any) -> Tensor:
        found.append(self)
        return forward(self, *given, **named)

    monkeypatch.setattr(AffineKernel, "forward", counted)
    return found


def drawn(name: str = "separable") -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[name][0]().eval()


def sampled_again(layer: nn.Module, call: Callable[..., Tensor] = on_plane, *given: Any) -> Tensor:
    """The result with gradients of parameters, for which no kernel is kept."""
    with torch.inference_mode(False), torch.enable_grad():
        return call(layer, *given).detach()


@pytest.mark.parametrize("name", list(LAYERS))
def test_kernels_of_fixed_samples_are_sampled_once(name: str, evaluations: list[nn.Module]) -> None:
    layer, call = drawn(name), LAYERS[name][1]
    want = sampled_again(layer, call)
    evaluations.clear()
    with torch.no_grad():
        assert torch.equal(call(layer), want)
        first = len(evaluations)
        assert torch.equal(call(layer), want)
    # Those of neighbors of points depend on the cloud.
    of_clouds = [x for x in evaluations[:first] if isinstance(x, AffineKernel) and x.spatial]
    again = of_clouds if name in ("points", "mixing of samples") else []
    assert first > 0
    assert evaluations[first:] == again


def stepped(layer: nn.Module) -> None:
    with torch.enable_grad():
        on_plane(layer).square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()


def averaged(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.data.mul_(1.5)  # counts no version


def replaced(layer: Any) -> None:
    layer.spatial_kernel = copy.deepcopy(layer.spatial_kernel)
    layer.spatial_kernel.gain *= 2


CHANGES: dict[str, Callable[[Any], Any]] = {
    "state": lambda layer: layer.load_state_dict(
        {name: 2 * value for name, value in layer.state_dict().items()}
    ),
    "optimizer": stepped,
    "average": averaged,
    "nan": lambda layer: layer.spatial_kernel.network.weight.data.fill_(torch.nan),
    "attribute": lambda layer: setattr(layer.group_kernel, "gain", 2.0),
    "network": replaced,
    "dtype": lambda layer: layer.double(),
    "assigned": lambda layer: setattr(
        layer.group_kernel.network, "weight", nn.Parameter(layer.group_kernel.network.weight * 2)
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
@torch.no_grad()
def test_no_kernel_is_used_after_a_change(change: str) -> None:
    layer = drawn()
    before = on_plane(layer)
    CHANGES[change](layer)
    after = on_plane(layer)
    assert not torch.equal(after.to(before.dtype), before)
    torch.testing.assert_close(after, sampled_again(layer), rtol=0, atol=0, equal_nan=True)


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))


def tied_layers() -> Any:
    kernel: Any = AffineKernel(SO(2), 6, SPEC, grouped=False)
    kernel.network = SirenKernel(2, 6, hidden=8, layers=4)
    kernel.network.hidden[3] = kernel.network.hidden[1]
    return kernel


def tied_weights() -> Any:
    kernel = tied_layers()
    kernel.network.hidden[3] = nn.Linear(8, 8, bias=True)
    kernel.network.hidden[3].weight = kernel.network.hidden[1].weight
    return kernel


def with_tensor() -> Any:
    kernel = tied_layers()
    kernel.network.omega = torch.tensor(10.0)
    return kernel


# Replacements of the kernel of a layer, and changes that leave parameters and their order.
STRUCTURES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "activation": (dense, lambda kernel: setattr(kernel, "1", nn.Sigmoid())),
    "shared layer": (
        tied_layers,
        lambda kernel: setattr(kernel.network.hidden, "3", kernel.network.hidden[2]),
    ),
    "shared weight": (
        tied_weights,
        lambda kernel: setattr(kernel.network.hidden[3], "weight", kernel.network.hidden[2].weight),
    ),
    "method": (
        tied_layers,
        lambda kernel: setattr(kernel, "_window", lambda u, s: u.square().sum(-1)),
    ),
    "tensor": (with_tensor, lambda kernel: kernel.network.omega.mul_(2)),
}


@pytest.mark.parametrize("structure", list(STRUCTURES))
@torch.no_grad()
def test_no_kernel_is_used_after_a_change_of_structure(structure: str) -> None:
    layer, (make, change) = drawn("lift"), STRUCTURES[structure]
    layer.kernel = make().eval()
    before = on_plane(layer)
    change(layer.kernel.eval())
    after = on_plane(layer.eval())
    assert not torch.equal(after, before)
    assert torch.equal(after, sampled_again(layer))


@torch.no_grad()
def test_new_samples_have_new_kernels() -> None:
    layer, samples = drawn(), equidistant_rotations(4)
    before = on_plane(layer, samples)
    for other in (equidistant_rotations(5), TURNS.act(TURN), TURNS):
        assert torch.equal(on_plane(layer, other), sampled_again(layer, on_plane, other))
    assert torch.equal(on_plane(layer, samples), before)
    samples.weight[0] = 3.0  # in place
    assert torch.equal(on_plane(layer, samples), sampled_again(layer, on_plane, samples))
    assert not torch.equal(on_plane(layer, samples), before)


@torch.no_grad()
def test_copies_files_and_training_hold_no_kernels() -> None:
    layer: Any = drawn()
    plain, names = len(pickle.dumps(layer)), list(layer.state_dict())
    want = on_plane(layer)
    assert len(layer._kernels) == 2
    assert len(pickle.dumps(layer)) == plain
    assert list(layer.state_dict()) == names
    for other in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer))):
        assert not other._kernels
        assert torch.equal(on_plane(other), want)
    for change in (layer.train, lambda: layer.to(torch.float32), lambda: layer.train().eval()):
        layer.eval()
        on_plane(layer)
        change()
        assert not layer._kernels
    layer.train()
    on_plane(layer)
    assert not layer._kernels


def test_kernels_of_inference_mode_serve_gradients_of_features() -> None:
    layer = drawn("group").requires_grad_(False)
    with torch.inference_mode():
        want = on_plane(layer)
    x = torch.zeros(2, 2, 4, 6, 6, requires_grad=True)
    layer(x, TURNS)[0].sum().backward()
    assert x.grad is not None
    assert bool(x.grad.any())
    assert torch.equal(on_plane(layer), want)


class OnTurns(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, TURNS)[0]


@torch.no_grad()
def test_derivatives_and_recorded_programs_use_parameters_not_kept_kernels() -> None:
    layer = drawn("lift")
    x = torch.ones(1, 2, 5, 5)
    want = layer(x, TURNS)[0]
    weight = layer.kernel.network.weight

    def called(weight: Tensor) -> Tensor:
        state = {"kernel.network.weight": weight}
        return torch.func.functional_call(layer, state, (x, TURNS))[0]

    # The layer is linear in the weight.
    assert torch.equal(called(weight), want)
    torch.testing.assert_close(called(2 * weight), 2 * want)
    _, tangent = torch.func.jvp(called, (weight.detach(),), (weight.detach(),))
    torch.testing.assert_close(tangent, want)
    gradient = torch.func.grad(lambda w: called(w).sum())(weight.detach())
    torch.testing.assert_close((gradient * weight).sum(), want.sum())
    batch = torch.stack([weight.detach(), -weight.detach()])
    torch.testing.assert_close(torch.func.vmap(called)(batch), torch.stack([want, -want]))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x, TURNS)[0].dtype == torch.bfloat16
    program = torch.export.export(OnTurns(layer), (x,)).module()
    program.get_parameter("layer.kernel.network.weight").mul_(2)
    torch.testing.assert_close(program(x), 2 * want)


@torch.no_grad()
def test_hooks_foreign_networks_and_chunks_are_evaluated_in_every_call() -> None:
    class Noise(nn.Module):
        def forward(self, u: Tensor) -> Tensor:
            return torch.rand(*u.shape[:-1], 6)

    noisy: Any = drawn("lift")
    noisy.kernel = Noise()
    assert not torch.equal(on_plane(noisy), on_plane(noisy))
    dropping: Any = drawn("lift")
    dropping.kernel = nn.Sequential(dense(), nn.Dropout()).train()
    assert not torch.equal(on_plane(dropping), on_plane(dropping))
    hooked, calls = drawn("lift"), []
    hooked.kernel.register_forward_hook(lambda *_: calls.append(1))
    for _ in range(3):
        on_plane(hooked)
    assert len(calls) == 3
    chunked: Any = GroupConv(SO(2), 2, 3, SPEC, quadrature=Quadrature(chunk=2)).eval()
    on_plane(chunked)
    assert not chunked._kernels
    training = drawn("lift")
    training.kernel.network.train()
    on_plane(training)
    assert not training._kernels


@pytest.mark.parametrize(
    "register", [register_module_forward_hook, register_module_forward_pre_hook]
)
@torch.no_grad()
def test_hooks_of_all_modules_are_called_in_every_call(register: Callable[..., Any]) -> None:
    layer, calls = drawn("lift"), []
    on_plane(layer)
    handle = register(lambda *_: calls.append(1))
    try:
        on_plane(layer)
        first = len(calls)
        on_plane(layer)
    finally:
        handle.remove()
    assert first > 1
    assert len(calls) == 2 * first
    on_plane(layer)
    assert len(calls) == 2 * first
    assert layer._kernels


@torch.no_grad()
def test_threads_do_not_mix_kernels() -> None:
    layer = drawn()
    sets = [TURNS, TURNS.act(TURN)]
    want = [sampled_again(layer, on_plane, samples) for samples in sets]

    def called(index: int) -> bool:
        with torch.no_grad():
            return torch.equal(on_plane(layer, sets[index % 2]), want[index % 2])

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(called, range(40)))
