"""The radial networks of e3nn, accelerated."""

import copy
import pickle

import pytest
import torch
from torch import nn

from equigeo.interop import accelerate, restore
from equigeo.interop.optional import require_e3nn
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import assert_same_derivatives, float64, random
from tests.tier import tier

require_e3nn()  # before e3nn 0.4.4 can be imported
from e3nn.nn import FullyConnectedNet  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")

EXACT = tolerance(torch.float64, terms=6 * 16 * 16)  # rows and two layers
SILU = nn.functional.silu
NETWORKS = {
    "as in models": lambda: FullyConnectedNet([8, 16, 16, 5], SILU),
    "variances": lambda: FullyConnectedNet([3, 7, 5], torch.tanh, 2.0, 3.0),
    "function at the end": lambda: FullyConnectedNet([3, 7, 5], torch.tanh, 2.0, 3.0, True),
    "a function that e3nn does not scale": lambda: FullyConnectedNet([3, 7, 5], torch.abs),
    "linear": lambda: FullyConnectedNet([3, 7, 5]),
    "a module": lambda: FullyConnectedNet([3, 7, 5], nn.SiLU()),
    "one layer": lambda: FullyConnectedNet([3, 5], SILU, variance_out=0.5),
}
networks = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())


def build(make):
    with float64(), torch.random.fork_rng():
        torch.manual_seed(2)
        return make()


def both(make):
    theirs = build(make)
    ours = copy.deepcopy(theirs)
    report = accelerate(ours)
    assert [note.note for note in report.replaced] == ["torch, with fewer steps"]
    return ours, theirs


@networks
def test_network_computes_the_same_to_second_gradients_and_stays_a_sequence(make):
    ours, theirs = both(make)
    for batch in ((6,), (2, 3), (0,), ()):
        assert_same_derivatives(ours, theirs, [random(*batch, theirs.hs[0])], **EXACT)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert len(ours) == len(theirs)
    assert [repr(layer) for layer in ours] == [repr(layer) for layer in theirs]
    assert ours[-1] is list(ours)[-1]
    assert repr(restore(ours) and ours) == repr(theirs)


@pytest.mark.parametrize("make", tier([NETWORKS["as in models"]], [*NETWORKS.values()]))
def test_every_check_of_the_certificate_passes(make):
    report = accelerate(build(make), verify=True)
    assert not report.kept
    assert report.certificate.passes


def test_what_the_ops_do_not_take_goes_the_way_of_before():
    ours, theirs = both(NETWORKS["variances"])
    with pytest.raises(RuntimeError, match="same dtype"):
        ours(random(4, 3).float())
    ours, theirs, x = ours.float(), theirs.float(), random(4, 3).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours(x), theirs(x))


def test_weights_are_read_in_every_call_and_copies_have_their_own():
    ours, _ = both(NETWORKS["as in models"])
    x = random(4, 8)
    before = ours(x)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        with torch.no_grad():
            other[-1].weight.mul_(2)
        torch.testing.assert_close(other(x), 2 * before, **EXACT)
    torch.testing.assert_close(ours(x), before, **EXACT)


def test_a_kind_of_network_can_be_made_again():
    ours, _ = both(NETWORKS["as in models"])
    other = type(ours)([3, 4, 2], SILU).double()
    want = FullyConnectedNet([3, 4, 2], SILU).double()
    want.load_state_dict(other.state_dict())
    x = random(5, 3)
    torch.testing.assert_close(other(x), want(x), **EXACT)


EDITS = {
    "del": lambda net: net.__delitem__(slice(1, None)),
    "pop": lambda net: net.pop(-1),
    "append": lambda net: net.append(nn.Tanh()),
    "extend": lambda net: net.extend([nn.Tanh(), nn.Tanh()]),
    "add": lambda net: net.add_module("last", nn.Tanh()),
    "set": lambda net: net.__setitem__(-1, nn.Identity()),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_network_that_is_edited_as_a_sequence_computes_as_before(edit):
    ours, theirs = both(NETWORKS["as in models"])
    for network in (ours, theirs):
        edit(network)
    x = random(4, 8)
    torch.testing.assert_close(ours(x), theirs(x), **EXACT)
    assert len(ours) == len(theirs)
    torch.testing.assert_close(nn.Sequential(*ours.children())(x), theirs(x), **EXACT)


def test_networks_whose_layers_are_watched_or_changed_are_kept():
    def with_parameters():
        return FullyConnectedNet([3, 4, 2], nn.PReLU(dtype=torch.float64))

    def hooked():
        network = FullyConnectedNet([3, 4, 2], SILU)
        network[0].register_forward_hook(lambda *_: None)
        return network

    def replaced():
        network = FullyConnectedNet([3, 4, 2], SILU)
        network.layer1 = nn.Linear(4, 2)
        return network

    def parametrized():
        network = FullyConnectedNet([3, 4, 2], SILU)
        nn.utils.parametrize.register_parametrization(network.layer1, "weight", nn.Identity())
        return network

    notes = {}
    for make in (with_parameters, hooked, replaced, parametrized):
        report = accelerate(make())
        assert not report.replaced
        notes[make.__name__] = report.kept[0].note
    assert notes == {
        "with_parameters": "its activation PReLU has parameters or buffers",
        "hooked": "has a layer with hooks, which would not be called",
        "replaced": "has a layer of class Linear",
        "parametrized": "has a layer of class Parametrized_Layer",
    }
