"""``restore`` undoes ``accelerate``, and what accelerated modules are besides: copies, classes."""

import copy
import gc
import io
import pickle
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from equigeo.interop import accelerate, restore
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.accelerated.layers import AcceleratedLinear
from tests.interop.e3nn_modules import BUILDERS, build, double_precision, inputs, o3, random, seeded
from tests.interop.library_stand_ins import (
    CONTRACTERS,
    contraction,
    convolution,
    points_convolution,
    stand_in,
    strided,
)
from tests.tier import tier
from tests.wrong_inputs import refused

pytestmark = [pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning")]
EACH_CLASS = ["all connections", "channelwise", "fully connected", "full", "elementwise"]
EACH_CLASS += ["linear, biases", "harmonics"]


def bits(module):
    return {key: (value.dtype, value.clone()) for key, value in module.state_dict().items()}


def assert_same_bits(module, state):
    now = module.state_dict()
    assert list(now) == list(state)
    for key, (dtype, value) in state.items():
        assert now[key].dtype == dtype
        assert now[key].equal(value)


def structure(module):
    """Everything that must be as it was: classes, children, flags and hooks."""

    def hooks(part):
        found = [value for key, value in sorted(vars(part).items()) if key.endswith("_hooks")]
        return [list(value.values()) for value in found if isinstance(value, dict)]

    def kind(part):  # each torch.fx.GraphModule has a class of its own
        return torch.fx.GraphModule if isinstance(part, torch.fx.GraphModule) else type(part)

    return [
        (path, kind(part), part.training, [name for name, _ in part.named_children()], hooks(part))
        for path, part in module.named_modules()
    ]


@pytest.mark.parametrize("name", tier(EACH_CLASS, [*BUILDERS]))
def test_every_module_is_what_it_was(name):
    module = build(name)
    before, state, arguments = structure(module), bits(module), inputs(module)
    expected = module(*arguments)
    accelerate(module)
    assert isinstance(module, Accelerated)
    assert restore(module) == ("",)
    assert structure(module) == before
    assert_same_bits(module, state)
    assert module(*arguments).equal(expected)
    assert "accelerated" not in vars(module)["_modules"]


def two_linears():
    with double_precision():
        return nn.Sequential(o3.Linear("4x0e+3x1o", "5x0e+2x1o"), o3.Linear("5x0e+2x1o", "3x0e"))


def test_what_changed_since_stays_changed():
    model = two_linears()
    accelerate(model)
    calls = []
    model[0].register_forward_hook(lambda *args: calls.append("after"))
    model[0].weight.requires_grad_(False)
    model.float().eval()
    with torch.no_grad():
        model[1].weight.fill_(2.0)
    state = bits(model)
    assert restore(model) == ("0", "1")
    assert_same_bits(model, state)
    assert [p.requires_grad for p in model.parameters()] == [False, True]
    assert not any(part.training for part in model.modules())
    x = random(3, 13).float()
    with torch.no_grad():
        want = x[:, :4] @ model[0].weight[:20].view(4, 5) / 2
    torch.testing.assert_close(model[0](x)[:, :5], want)
    assert calls == ["after"]


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "save and load": saved,
    "copy of each": lambda model: nn.Sequential(*map(copy.copy, model)),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_is_restored_and_the_original_stays_accelerated(make):
    model = two_linears()
    state, x = bits(model), random(3, 13)
    expected = model(x)
    accelerate(model)
    other = make(model)
    assert all(isinstance(part, AcceleratedLinear) for part in other)
    torch.testing.assert_close(other(x), expected)
    assert restore(other) == ("0", "1")
    assert all(type(part) is o3.Linear for part in other)
    assert_same_bits(other, state)
    assert other(x).equal(expected)
    assert all(isinstance(part, AcceleratedLinear) for part in model)
    torch.testing.assert_close(model(x), expected)
    assert len(model[0]._load_state_dict_post_hooks) == 1


@pytest.mark.parametrize("name", ["fully connected", "linear", "harmonics", "channelwise"])
def test_copies_of_every_kind_compute_the_same(name):
    original = build(name)
    module, arguments = copy.copy(original), inputs(original)
    accelerate(module)  # a shallow copy alone
    assert not isinstance(original, Accelerated)
    assert "accelerated" not in dict(original.named_children())
    assert not original._load_state_dict_post_hooks
    expected = module(*arguments)
    for make in (copy.copy, copy.deepcopy, saved):
        other = make(module)
        assert type(other) is type(module)
        assert other(*arguments).equal(expected)
        other.load_state_dict(module.state_dict(), strict=True)
        if make is not copy.copy:
            for mine, theirs in zip(other.parameters(), module.parameters(), strict=True):
                assert mine is not theirs
            # What averages models goes through the buffers of two side by side.
            shapes = [[buffer.shape for buffer in part.buffers()] for part in (other, module)]
            assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", ["fully connected", "linear", "harmonics", "channelwise"])
def test_a_module_is_freed_without_collection_of_garbage(name):
    module = build(name)
    accelerate(module)
    module(*inputs(module))
    freed = weakref.ref(module)
    gc.collect()
    gc.disable()
    try:
        del module
        assert freed() is None
    finally:
        gc.enable()


def test_acceleration_and_its_undoing_alternate():
    model = two_linears()
    x, before = random(3, 13), structure(model)
    for _ in range(3):
        assert len(accelerate(model).replaced) == 2
        fast = model(x)
        assert len(restore(model)) == 2
        assert restore(model) == ()  # nothing is left to restore
        assert structure(model) == before
        torch.testing.assert_close(model(x), fast)


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def test_what_is_not_as_accelerate_left_it_is_named_before_anything_is_restored():
    model = two_linears()
    accelerate(model)
    model[1].forward = lambda x: 2 * x
    refused("1 must be as accelerate left it, but its forward", restore, model)
    del model[1].forward
    parametrize.register_parametrization(model[1], "weight", Doubled())
    refused("1 must be as accelerate left it, got a Parametrized", restore, model)
    parametrize.remove_parametrizations(model[1], "weight")
    assert all(isinstance(part, AcceleratedLinear) for part in model)
    assert restore(model) == ("0", "1")


@pytest.mark.parametrize("library", ["nequip", "mace", "sevenn", "allegro", "contraction"])
def test_modules_of_libraries_and_their_copies_are_restored(library, monkeypatch):
    stand_in(monkeypatch)
    if library == "contraction":
        module, arguments = contraction("4x0e+4x1o", "4x0e+4x1o", 2, 2)
    elif library == "allegro":
        module, arguments = strided("contracter", *CONTRACTERS["all paths"])
    else:
        module, arguments = convolution(library)
    before, state, expected = structure(module), bits(module), module(*arguments)
    attributes = sorted(vars(module))
    accelerate(module)
    other = copy.deepcopy(module)
    other.load_state_dict(module.state_dict(), strict=True)
    assert other(*arguments).equal(module(*arguments))
    for part in (module, other):
        assert len(restore(part)) == (2 if library == "sevenn" else 1)  # with its radial network
        assert structure(part) == before
        assert sorted(vars(part)) == attributes
        assert_same_bits(part, state)
        assert part(*arguments).equal(expected)


def test_a_fusion_that_is_not_ours_stays(monkeypatch):
    stand_in(monkeypatch)
    first, second = (convolution("mace")[0] for _ in range(2))
    second.conv_fusion = "atomic"
    both = nn.ModuleList([first, second])
    accelerate(both)
    assert restore(both) == ("0.conv_tp", "1.conv_tp")
    assert not hasattr(first, "conv_fusion")
    assert second.conv_fusion == "atomic"


def test_a_convolution_without_its_block_is_refused(monkeypatch):
    stand_in(monkeypatch)
    block, arguments = convolution("mace")
    accelerate(block)
    fast = block(*arguments)
    refused("expected the block that calls this convolution", restore, block.conv_tp)
    assert block(*arguments).equal(fast)


def test_scripting_what_is_accelerated_says_what_to_do():
    model = two_linears()
    accelerate(model)
    message = r"AcceleratedLinear cannot be scripted.*call equigeo\.interop\.restore\(model\) first"
    refused(message, torch.jit.script, model, error=RuntimeError)
    assert all(isinstance(part, AcceleratedLinear) for part in model)


@pytest.mark.filterwarnings("ignore")  # what PyTorch says of TorchScript
def test_a_convolution_of_gate_points_is_scripted_after_it_is_restored():
    from e3nn.util import jit

    model, arguments = points_convolution()
    expected = model(*arguments)
    assert len(accelerate(model).replaced) == 6
    torch.testing.assert_close(model(*arguments), expected)
    assert len(restore(model)) == 6
    file = io.BytesIO()
    torch.jit.save(jit.script(model), file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(*arguments), expected)


CONSTRUCTED = {
    "linear": lambda cls: cls(o3.Irreps("4x0e+3x1o"), o3.Irreps("2x0e+2x1o"), biases=False),
    "fully connected": lambda cls: cls("2x0e+3x1o", "0e+1o", "3x0e+2x1o"),
    "channelwise": lambda cls: cls("4x0e", "1o", "4x1o", [(0, 0, 0, "uvu", True)]),
    "harmonics": lambda cls: cls([0, 1, 2], True, "component"),
    "full": lambda cls: cls("2x0e+1o", "0e+1o"),
}


@pytest.mark.parametrize(("name", "make"), CONSTRUCTED.items(), ids=CONSTRUCTED)
def test_the_class_of_an_accelerated_module_makes_accelerated_modules(name, make):
    module = build(name)
    base = type(module)
    accelerate(module)
    with seeded(4):
        ours = make(type(module))
        torch.manual_seed(4)
        theirs = make(base)
    assert type(ours) is type(module)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    arguments = inputs(theirs)
    torch.testing.assert_close(ours(*arguments), theirs(*arguments))
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert restore(ours) == ("",)
    assert type(ours) is base


def test_arguments_that_cannot_be_accelerated_make_a_module_of_the_class_of_before():
    linear = build("linear")
    accelerate(linear)
    other = type(linear)("2x0e", "2x0e", f_in=3, f_out=4)
    assert type(other) is o3.Linear
    assert other(torch.randn(5, 3, 2)).shape == (5, 4, 2)


@pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own packages
@pytest.mark.parametrize("name", tier(["linear"], ["fully connected", "linear", "harmonics"]))
def test_packages_hold_accelerated_modules(name, tmp_path):
    module = build(name)
    arguments = inputs(module)
    accelerate(module)
    path = tmp_path / "model.pt"
    with torch.package.PackageExporter(path) as exporter:
        for library in ("equigeo.**", "e3nn.**", "torch.**", "numpy.**", "io", "sys"):
            exporter.extern(library)
        exporter.save_pickle("model", "model.pkl", module)
    other = torch.package.PackageImporter(path).load_pickle("model", "model.pkl")
    assert type(other) is type(module)
    assert other(*arguments).equal(module(*arguments))
    assert "equigeo.interop" in sys.modules
    assert restore(other) == ("",)
