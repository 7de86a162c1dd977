import warnings
from functools import partial

import pytest

from equigeo import tensor_products as tp
from equigeo.nn import Linear
from equigeo.nn.module import allow_unreached, check_reached
from equigeo.reps import Irreps
from tests.wrong_inputs import refused

NOTHING = {
    "linear": (lambda: Linear("4x0e", "2x1o"), "Linear needs a path to its output, got none"),
    "linear, no pairs": (lambda: Linear("4x0e", "4x0e", instructions=[]), "from 4x0e to 4x0e"),
    "linear, no channels": (lambda: Linear("0x0e+1o", "4x0e"), "from 0x0e+1x1o to 4x0e"),
    "paths": (lambda: tp.TensorProduct("2x0e", "1o", "3x2e", []), "from 2x0e and 1x1o to 3x2e"),
    "weight of zero": (
        lambda: tp.TensorProduct("0e", "0e", "0e", [(0, 0, 0, "uuu", False, 0.0)]),
        "TensorProduct needs a path",
    ),
    "fully connected": (
        lambda: tp.FullyConnectedTensorProduct("2x0e", "1o", "3x2e+1e"),
        "FullyConnectedTensorProduct needs a path",
    ),
    "square": (lambda: tp.TensorSquare("2x1o", "4x1o"), "TensorProduct needs a path"),
    **{
        name: (partial(tp.make, name, "4x0e", "4x0e", "4x0o"), "from 4x0e and 4x0e to 4x0o")
        for name in tp.product_names()
    },
    "by orders": (lambda: tp.SO2Conv("4x0o", "1o"), "SO2Conv needs a path to its output"),
    "curl of scalars": (lambda: tp.make("curl", "0e+1o", "0e+1o", "4x0e"), "to 4x0e"),
}


@pytest.mark.filterwarnings("ignore:the product of .* its output is empty")
@pytest.mark.parametrize(("make", "message"), NOTHING.values(), ids=NOTHING)
def test_a_layer_that_could_only_give_zeros_is_refused(make, message):
    with pytest.raises(ValueError, match="needs a path to its output, got none") as error:
        make()
    assert message in str(error.value)


SOME = {
    "linear": lambda: Linear("4x0e", "2x0e+3x1o"),
    "paths": lambda: tp.TensorProduct("0e", "1o", "1o+3x1o", [(0, 0, 0, "uvw", True)]),
    "fully connected": lambda: tp.FullyConnectedTensorProduct("2x0e", "1o", "1o+3x1o+3x1o+3x1e"),
    "by orders": lambda: tp.SO2Conv("4x0o", "4x0o+3x1o"),
    "signals": lambda: tp.SignalTensorProduct("0e+1o", "0e+1o", "0e+1o+3x1e"),
}


@pytest.mark.parametrize("make", SOME.values(), ids=SOME)
def test_terms_that_nothing_arrives_at_are_warned_of_at_the_line_that_made_them(make):
    with pytest.warns(UserWarning, match=r"has no path to 3x1[oe], which will be zero") as caught:
        make()
    assert caught[0].filename == __file__


EMPTY = {
    "full": (lambda: tp.FullTensorProduct("1o", "1o", ["1o", "0o"]), "0o+1o"),
    "elementwise": (lambda: tp.ElementwiseTensorProduct("1o", "1o", ["1o"]), "1o"),
    "channelwise": (lambda: tp.ChannelwiseTensorProduct("4x0e", "1o", "4x2e"), "2e"),
}


@pytest.mark.parametrize(("make", "wanted"), EMPTY.values(), ids=EMPTY)
def test_products_that_make_nothing_of_what_was_asked_for_are_warned_of(make, wanted):
    with pytest.warns(
        UserWarning, match=r"has no path to any of [\w+]+: its output is empty"
    ) as got:
        product = make()
    assert f"any of {wanted}:" in str(got[0].message)
    assert product.irreps_out.dim == 0


FINE = [
    lambda: Linear("4x1o", "4x1o+2x0e", biases=True),  # bias
    lambda: Linear("4x1o", "2x0e", biases=True),  # bias alone
    lambda: Linear("4x1o", ""),  # nothing to reach
    lambda: Linear("4x1o", "4x1o+0x0e"),  # terms without channels
    lambda: tp.TensorProduct("4x1o", "1o", "", []),  # empty product
    lambda: Linear("", "2x0e"),  # linear of nothing
    lambda: tp.FullyConnectedTensorProduct("1o", "0x0e", "1o"),  # product with nothing
    lambda: tp.FullTensorProduct("", "1o", ["0e"]),  # empty input
]


def test_reached_and_empty_outputs_do_not_warn():
    for make in FINE:
        make()


def test_conversions_warn_of_zeros_only():
    with allow_unreached(), warnings.catch_warnings():
        warnings.simplefilter("error")
        Linear("4x0e", "2x0e+3x1o")
        refused("needs a path to its output", Linear, "4x0e", "3x1o", error=UserWarning)
    refused("needs a path", check_reached, "Layer", [Irreps("4x0e")], Irreps("3x1o"), (), 1)
