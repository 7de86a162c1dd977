import io

import pytest
import torch
from torch.testing import assert_close

from equigeo._core.tensors import record_program
from equigeo.interop.metatomic import script_program


def program_of(function, *inputs):
    recorded = record_program(function, inputs)
    recorded.graph.eliminate_dead_code()
    return script_program(recorded)


def test_sizes_are_computed_and_not_kept():
    table = torch.arange(10.0)

    def function(x, index):
        rows = x.new_zeros(2 * x.shape[0] + 1, x.shape[1] // 2)
        ordered, order = torch.sort(index, stable=True)
        padded = torch.cat([rows, torch.full((x.shape[0] - 1, x.shape[1] // 2), torch.inf)])
        return padded, table[ordered] * 2 + 1, order, x.reshape(-1), x.sum((0, 1))

    scripted = program_of(function, torch.rand(5, 6), torch.tensor([3, 1, 2, 1]))
    for rows, columns, count in ((5, 6, 4), (4, 8, 0), (2, 2, 9)):
        inputs = torch.rand(rows, columns), torch.randint(10, (count,))
        assert_close(scripted(*inputs), function(*inputs), rtol=0.0, atol=0.0)


def test_gradients_that_a_function_takes_and_its_checks_are_in_the_program():
    def function(x):
        torch._assert_async((x > 0).all(), "x must be positive")
        y = x.detach().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.silu(y).sum(), y)

    scripted, x = program_of(function, torch.rand(5) + 1), torch.rand(3) + 1
    assert_close(scripted(x), function(x), rtol=0.0, atol=0.0)
    with pytest.raises(torch.jit.Error, match="x must be positive"):
        scripted(-x)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_weights_are_saved_with_it():
    layer = torch.nn.Linear(3, 2).requires_grad_(False)
    scripted, file = program_of(lambda x: (layer(x),), torch.rand(5, 3)), io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    x = torch.rand(4, 3)
    assert_close(torch.jit.load(file)(x)[0], layer(x), rtol=0.0, atol=0.0)
    assert len(list(scripted.buffers())) == 2
    assert scripted.double()(x.double())[0].dtype == torch.float64


def test_what_is_no_call_of_an_op_is_refused():
    layer = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.SiLU()))
    with pytest.raises(ValueError, match=r"must call functions, got .*call_module"):
        script_program(layer)

    def function(x):
        return (torch.tanh(x),)

    with pytest.raises(ValueError, match=r"must call ops, got .*tanh"):
        script_program(torch.fx.symbolic_trace(function))
