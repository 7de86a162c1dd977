"""What :func:`accelerate` knows of NequIP and MACE, small enough to be written down."""

import sys
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.reps import Irreps
from equigeo.tensor_products.products.symmetric_basis import coupled_polynomials, monomials
from tests.interop.e3nn_modules import build, o3, random

NODES, EDGES = 5, 12


class TensorProductScatter(nn.Module):
    """As in NequIP 0.19."""

    def __init__(self, tp: Any) -> None:
        super().__init__()
        self.tp = tp

    def forward(self, x, edge_attr, edge_weight, edge_dst, edge_src):
        messages = self.tp(x[edge_src], edge_attr, edge_weight)
        return x.new_zeros(len(x), messages.shape[1]).index_add(0, edge_dst, messages)


class InteractionBlock(nn.Module):
    """As the blocks of MACE 0.3."""

    def __init__(self, conv_tp: Any) -> None:
        super().__init__()
        self.conv_tp = conv_tp

    def forward(self, node_feats, edge_attrs, tp_weights, edge_index):
        if hasattr(self, "conv_fusion"):
            return self.conv_tp(node_feats, edge_attrs, tp_weights, edge_index)
        messages = self.conv_tp(node_feats[edge_index[0]], edge_attrs, tp_weights)
        out = node_feats.new_zeros(len(node_feats), messages.shape[1])
        return out.index_add(0, edge_index[1], messages)


class OlderBlock(InteractionBlock):
    """As the blocks of MACE before they could fuse."""

    def forward(self, node_feats, edge_attrs, tp_weights, edge_index):
        messages = self.conv_tp(node_feats[edge_index[0]], edge_attrs, tp_weights)
        out = node_feats.new_zeros(len(node_feats), messages.shape[1])
        return out.index_add(0, edge_index[1], messages)


class Contraction(nn.Module):
    """The polynomials of one output of MACE's contraction, from dense coupling tensors."""

    def __init__(self, irreps_in: Irreps, ir: tuple[int, int], correlation: int, elements: int):
        super().__init__()
        self.correlation, channels, self.size = correlation, irreps_in.terms[0][0], 2 * ir[0] + 1
        ins = tuple(ir for _, ir in irreps_in)
        weights = []
        for order in range(correlation, 0, -1):
            tensor = dense_couplings(ins, order, ir)
            self.register_buffer(f"U_matrix_{order}", tensor)
            weights.append(nn.Parameter(torch.randn(elements, tensor.shape[-1], channels)))
        self.weights_max, self.weights = weights[0], nn.ParameterList(weights[1:])

    def U_tensors(self, order: int) -> Tensor:
        return self.get_buffer(f"U_matrix_{order}")

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out = 0.0
        for order, weight in zip(
            range(self.correlation, 0, -1), [self.weights_max, *self.weights], strict=True
        ):
            shape = (self.size, *[x.shape[-1]] * order, weight.shape[1])
            tensor = self.U_tensors(order).reshape(shape)
            value = torch.einsum("m...k,ekc,be->bcm...", tensor, weight, y)
            for _ in range(order):
                value = torch.einsum("bcm...i,bci->bcm...", value, x)
            out = out + value
        return out.flatten(1)


class SymmetricContraction(nn.Module):
    """As in MACE 0.3."""

    def __init__(self, irreps_in: str, irreps_out: str, correlation: int, elements: int) -> None:
        super().__init__()
        self.irreps_in, self.irreps_out = o3.Irreps(irreps_in), o3.Irreps(irreps_out)
        self.contractions = nn.ModuleList(
            Contraction(Irreps(irreps_in), ir, correlation, elements)
            for _, ir in Irreps(irreps_out)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([part(x, y) for part in self.contractions], dim=-1)


def dense_couplings(ins: tuple[tuple[int, int], ...], order: int, ir: tuple[int, int]) -> Tensor:
    """Coupling tensors (2 l + 1, dim, ..., dim, paths); no leading axis for scalars."""
    dim, paths = sum(2 * l + 1 for l, _ in ins), coupled_polynomials(ins, order, ir, "mace")
    tensor = torch.zeros(2 * ir[0] + 1, *[dim] * order, len(paths), dtype=torch.float64)
    for k, path in enumerate(paths):
        for place, index in enumerate(monomials(dim, order)):
            tensor[(slice(None), *reversed(index), k)] = path.values[:, place]
    return (tensor[0] if ir[0] == 0 else tensor).to(torch.get_default_dtype())


def stand_in(monkeypatch: Any) -> None:
    """Pretend that both libraries are loaded, and have these classes."""
    classes = {
        "nequip.nn._tp_scatter_base": TensorProductScatter,
        "mace.modules.blocks": InteractionBlock,
        "mace.modules.symmetric_contraction": SymmetricContraction,
    }
    for name, cls in classes.items():
        module = ModuleType(name)
        setattr(module, cls.__name__, cls)
        monkeypatch.setitem(sys.modules, name, module)


def edges() -> Tensor:
    """Unsorted edges, some twice, one from a node to itself, and a node that none arrives at."""
    return torch.tensor(
        [[4, 0, 3, 1, 1, 2, 0, 3, 4, 0, 2, 3], [1, 0, 2, 4, 4, 1, 2, 2, 1, 4, 0, 1]]
    )


def convolution_inputs(product: Any) -> tuple[Tensor, ...]:
    """Features, attributes, weights, targets and sources for a product on the edges."""
    source, target = edges()
    features = random(NODES, product.irreps_in1.dim)
    attributes = random(EDGES, product.irreps_in2.dim, seed=1)
    return features, attributes, random(EDGES, product.weight_numel, seed=2), target, source


def convolution(library: str) -> tuple[nn.Module, list[Tensor]]:
    """A convolution as in NequIP or MACE, and its arguments."""
    product = build("channelwise")
    *features, target, source = convolution_inputs(product)
    if library == "nequip":
        return TensorProductScatter(product), [*features, target, source]
    return InteractionBlock(product), [*features, torch.stack([source, target])]
