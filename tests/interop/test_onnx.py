"""ONNX, in an environment that has it: ``make test-interop``."""

import copy

import pytest
import torch
from torch import nn
from torch.utils import _pytree

from equigeo.interop import accelerate, decompose_ops, restore
from equigeo.testing import tolerance
from tests.interop.e3nn_modules import o3
from tests.interop.test_decompose_ops import BY_NAME, exported, more_rows
from tests.mesh.test_export import network, program_of, several
from tests.tier import tier

reason = "needs onnx and onnxscript: make test-interop"
pytest.importorskip("onnxscript", reason=reason)
reference = pytest.importorskip("onnx.reference", reason=reason)
pytestmark = pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own tracing


LAYERS = [
    "nn.Linear",
    "tensor_products.SphericalHarmonics",
    "tensor_products.ChannelwiseTensorProduct in mul_ir",
    "tensor_products.SymmetricContraction",
    "tensor_products.ChannelwiseConv of an EdgeIndex",
    "affine.GroupConv",  # half turns
]
MORE = [
    "nn.Gate",
    "nn.EquivariantLayerNorm",
    "tensor_products.TensorProduct",
    "tensor_products.FullyConnectedTensorProduct",
    "tensor_products.SO2Conv",
    "affine.AffineResNet",
    "points.PointNet",
    "mesh.ResidualBlock",
]


def evaluate(program, inputs):
    run = reference.ReferenceEvaluator(program.model_proto)
    names = [given.name for given in program.model_proto.graph.input]
    found = run.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=True)})
    return tuple(map(torch.from_numpy, found))


@pytest.mark.parametrize("name", tier(LAYERS, LAYERS + MORE))
def test_a_decomposed_layer_is_exported_for_any_number_of_rows(name):
    layer, program = exported(BY_NAME[name])
    onnx = torch.onnx.export(decompose_ops(program), dynamo=True)
    inputs = more_rows(BY_NAME[name])
    # PyTorch writes scalar factors of its activations in float32.
    close = tolerance(torch.float32, terms=2**10)
    torch.testing.assert_close(evaluate(onnx, inputs), layer(*inputs), **close)


@pytest.mark.parametrize("kind", tier(["classifier"], ["classifier", "segmenter"]))
def test_a_mesh_network_is_exported_for_any_number_of_faces(kind):
    model = network(kind, torch.float32)
    program = decompose_ops(program_of(kind, torch.float32))
    onnx = torch.onnx.export(program, dynamo=True)
    for mesh in several():
        graph = model.graph(mesh)
        leaves = _pytree.tree_leaves(graph)
        given = dict(zip(program.graph_signature.user_inputs, leaves, strict=True))
        inputs = [given[x.name] for x in onnx.model_proto.graph.input]
        close = tolerance(torch.float32, terms=2**10)
        torch.testing.assert_close(evaluate(onnx, inputs)[0], model(graph).detach(), **close)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.harmonics = o3.SphericalHarmonics("0e+1o+2e", True, "component")
        self.product = o3.FullyConnectedTensorProduct("4x0e+2x1o", "0e+1o+2e", "3x0e+2x1o")
        self.linear = o3.Linear("3x0e+2x1o", "2x0e+1x1o")

    def forward(self, x, vectors):
        return self.linear(self.product(x, self.harmonics(vectors)))


def test_a_restored_model_is_exported_as_that_of_before():
    torch.manual_seed(0)
    theirs = Model().eval()
    ours, arguments = copy.deepcopy(theirs), (torch.randn(5, 10), torch.randn(5, 3))
    assert not accelerate(ours).kept
    restore(ours)
    program = torch.onnx.export(ours, arguments, dynamo=True)
    (found,) = evaluate(program, arguments)
    torch.testing.assert_close(found, theirs(*arguments).detach())


def test_an_accelerated_model_is_refused():
    model, arguments = Model().eval(), (torch.randn(5, 10), torch.randn(5, 3))
    accelerate(model)
    with pytest.raises(Exception, match="equigeo"):
        torch.onnx.export(model, arguments, dynamo=True)
