from contextlib import suppress

import pytest
import torch
from e3nn import get_optimization_defaults

from bench.interleaved import medians
from bench.peers import KEPT, KINDS, Library, compare, drawn, fastest, jit_mode
from bench.products import channelwise
from equigeo import ops
from equigeo import tensor_products as tp
from tests.wrong_inputs import refused


def product(x, y):
    return x * y * y


class Clock:
    """Seconds that only slow calls take."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def slow(self, x, y):
        self.now += 1.0
        return product(x, y)


def without_second_derivatives(x, y):
    return Once.apply(x, y)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y * y

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():
            raise RuntimeError("no second derivatives\nand more lines")
        x, y = ctx.saved_tensors
        return grad * y * y, 2 * grad * x * y


def libraries(**modes):
    inputs = drawn((5, 3), (5, 3))
    return {"ours": Library({"eager": product}, inputs), "peer": Library(modes, inputs, "ours")}


def test_every_mode_is_timed_and_the_fastest_is_found():
    clock = Clock()
    found = compare(libraries(eager=clock.slow, compile=product)).timed(rounds=3, clock=clock)
    seconds = {f"{side} {kind}": [0.0] * 3 for kind in KINDS for side in ("ours", "peer, compile")}
    # The second pass differentiates a graph that stands: it calls no layer.
    seconds |= {"peer forward": [1.0] * 3, "peer both": [1.0] * 3, "peer second": [0.0] * 3}
    assert found["seconds"] == seconds
    assert found["quartiles"] == {key: [values[0]] * 2 for key, values in seconds.items()}
    assert fastest(medians(found["seconds"]), "peer", "both") == 0.0
    assert found["without"] == {}


def test_mode_without_a_pass_has_a_reason():
    compared = compare(libraries(eager=product, compile=without_second_derivatives))
    assert compared.without == {"peer, compile second": "no second derivatives"}
    assert "peer, compile second" not in compared.calls
    assert {"peer, compile both", "peer second"} <= compared.calls.keys()


def test_time_of_repeated_calls_is_divided():
    clock = Clock()
    compared = compare(libraries(eager=clock.slow), ("forward",))
    for repeat in (1, 3):
        before = clock.now
        found = compared.timed(2, repeat, clock)
        assert found["seconds"]["peer forward"] == [1.0, 1.0]
        assert clock.now - before == 3 * repeat  # the first round does not count


def test_the_same_calls_are_timed_with_and_without_memory_of_results(monkeypatch):
    happened = []
    monkeypatch.setattr(ops, "limit_result_memory", happened.append)

    def noting(x, y):
        happened.append("called")
        return product(x, y)

    compared = compare({"ours": Library({"eager": noting}, drawn((5, 3), (5, 3)))}, ("forward",))
    happened.clear()
    kept, fresh = compared.timed_with_either_memory(rounds=2)
    assert (kept["results kept"], fresh["results kept"]) == (True, False)
    assert kept["seconds"].keys() == fresh["seconds"].keys() == {"ours forward"}
    assert happened == [KEPT, *3 * ["called"], 0, *3 * ["called"], KEPT]


def test_compared_passes_of_two_problems_are_timed_in_turn():
    first = compare({"one": Library({"eager": product}, drawn((5, 3), (5, 3)))}, ("forward",))
    second = compare({"two": Library({"eager": product}, drawn((5, 3), (5, 3)))}, ("both",))
    assert (first | second).timed(2)["seconds"].keys() == {"one forward", "two both"}


def test_compiled_layers_of_many_problems_are_all_compiled():

    class Scaled(torch.nn.Module):
        def __init__(self, power):
            super().__init__()
            self.power = power

        def forward(self, x, y):
            return x * y**self.power

    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    for power in range(2, 12):
        inputs, layer = drawn((5, 3), (5, 3)), Scaled(power)
        peer = {"eager": layer, "compile": torch.compile(layer, backend=backend)}
        both = {"ours": Library({"eager": layer}, inputs), "peer": Library(peer, inputs, "ours")}
        compare(both, ("forward",))
    assert len(compiled) >= 10


def test_without_any_mode_for_a_pass_nothing_is_measured():
    with pytest.raises(RuntimeError, match="peer has no mode with the pass 'second'"):
        compare(libraries(eager=without_second_derivatives))


@pytest.mark.parametrize("kinds", [("forward",), ("both",), ("second",)])
def test_results_that_differ_are_not_timed(kinds):
    def wrong(x, y):
        return x * y * y.abs() if kinds == ("forward",) else product(x, y) + WRONG[kinds](x, y)

    refused("not close", compare, libraries(eager=wrong), kinds, error=AssertionError)


WRONG = {
    ("both",): lambda x, y: x - x.detach(),  # the values are right
    ("second",): lambda x, y: (x - x.detach()) ** 2,  # and the gradients too
}


def test_the_mode_of_e3nn_is_put_back():
    before = get_optimization_defaults()
    with suppress(KeyError), jit_mode("script"):
        assert get_optimization_defaults()["jit_mode"] == "script" != before["jit_mode"]
        raise KeyError
    assert get_optimization_defaults() == before


def test_both_layouts_of_a_product_are_the_same_function():
    found = channelwise("small", 7)
    ours, theirs = (found[name].modes["eager"] for name in ("ours mul_ir", "ours ir_mul"))
    x, y, w = (given.detach() for given in found["e3nn"].inputs)
    given = ours.irreps_in1.to_layout(x, "ir_mul")
    got = theirs(given, y, w)
    want = ours(x, y, w)
    assert isinstance(ours, tp.ChannelwiseTensorProduct)
    # Terms may stand in another order: the same numbers, up to the order of summation.
    torch.testing.assert_close(got.sort().values, want.sort().values)
