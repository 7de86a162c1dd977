"""What :func:`accelerate` knows of other libraries, small enough to be written down."""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import torch
from e3nn.nn import FullyConnectedNet
from torch import Tensor, nn

from equigeo.reps import Irreps
from equigeo.tensor_products.products.symmetric_basis import coupled_polynomials, monomials
from tests.interop.e3nn_modules import build, o3, random, seeded

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


class IrrepsConvolution(nn.Module):
    """As in SevenNet 0.13."""

    def __init__(self, product: Any, embedded: int = 3) -> None:
        super().__init__()
        self.convolution, self.is_parallel = product, False
        self.weight_nn = FullyConnectedNet([embedded, 4, product.weight_numel], nn.functional.silu)
        self.denominator = nn.Parameter(torch.tensor([1.5]))
        self.key_x, self.key_filter = "x", "edge_attr"
        self.key_weight_input, self.key_edge_idx = "edge_embedding", "edge_index"

    def forward(self, data):
        weight, x = self.weight_nn(data[self.key_weight_input]), data[self.key_x]
        if self.is_parallel:
            x = torch.cat([x, data["node_feature_ghost"]])
        target, source = data[self.key_edge_idx]
        messages = self.convolution(x[source], data[self.key_filter], weight)
        out = x.new_zeros(len(x), messages.shape[1])
        index = target[:, None].expand_as(messages)
        data[self.key_x] = out.scatter_reduce(0, index, messages, "sum").div(self.denominator)
        return data


class FeaturesOfGraph(nn.Module):
    """A layer of SevenNet, which maps dictionaries, as a function of tensors."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x, attributes, embedding, edges):
        keys = ("x", "edge_attr", "edge_embedding", "edge_index")
        return self.layer(dict(zip(keys, (x, attributes, embedding, edges), strict=True)))["x"]


class Contracter(nn.Module):
    """As in Allegro 0.8, with a path for each pair of irreps and each output that they reach."""

    def __init__(self, in1: str, in2: str, out: str, mul: int, coupled: bool = True) -> None:
        super().__init__()
        self.irreps_in1, self.irreps_in2, self.irreps_out = map(o3.Irreps, (in1, in2, out))
        self.mul, self.path_channel_coupling = mul, coupled
        sides = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        self.base_dim1, self.base_dim2, self.base_dim_out = (irreps.dim for irreps in sides)
        tables = []
        for places in product(*(range(len(irreps)) for irreps in sides)):
            irs = [irreps[place].ir for irreps, place in zip(sides, places, strict=True)]
            if irs[2] in irs[0] * irs[1]:
                block = [irreps.slices()[n] for irreps, n in zip(sides, places, strict=True)]
                tables.append(torch.zeros(*(irreps.dim for irreps in sides)))
                tables[-1][tuple(block)] = o3.wigner_3j(*(ir.l for ir in irs)) * 3
        self.num_paths, table = len(tables), torch.stack(tables)
        diagonal = table.diagonal(dim1=1, dim2=2).mT  # with axes p, i, k
        self.w3j_is_ij_diagonal = bool(
            torch.diag_embed(diagonal.mT).permute(0, 2, 3, 1).equal(table)
        )
        table = diagonal if self.w3j_is_ij_diagonal else table
        self.register_buffer("w3j", table[0] if self.num_paths == 1 else table)
        shape = (mul,) * coupled + (self.num_paths,) * (self.num_paths > 1)
        self.weights = nn.Parameter(torch.randn(shape))

    def forward(self, x1, x2, idxs):
        x1 = x1.reshape(-1, self.mul, self.base_dim1)
        x2 = x2.reshape(-1, self.mul, self.base_dim2).index_select(0, idxs)
        p, u = "p" * (self.num_paths > 1), "u" * self.path_channel_coupling
        j = "i" if self.w3j_is_ij_diagonal else "j"
        table = "ik" if self.w3j_is_ij_diagonal else "ijk"
        form = f"zui,zu{j},{u}{p},{p}{table}->zuk"
        return torch.einsum(form, x1, x2, self.weights, self.w3j)


class MakeWeightedChannels(nn.Module):
    """As in Allegro 0.8."""

    def __init__(self, irreps_in: str, multiplicity_out: int, individual: bool = True) -> None:
        super().__init__()
        irreps = o3.Irreps(irreps_in)
        self.multiplicity_out, self.weight_individual_irreps = multiplicity_out, individual
        self.weight_numel = multiplicity_out * (len(irreps) if individual else 1)
        table = torch.zeros(len(irreps), irreps.dim)
        for row, part in zip(table, irreps.slices(), strict=True):
            row[part] = 1.5
        self.register_buffer("_rtoi", table, persistent=False)

    def forward(self, edge_attr, weights):
        if not self.weight_individual_irreps:
            return weights.unsqueeze(-1) * (1.5 * edge_attr.unsqueeze(-2))
        weights = weights.reshape(-1, self.multiplicity_out, len(self._rtoi))
        return edge_attr.unsqueeze(1) * (weights @ self._rtoi)


def strided(name: str, *options: Any) -> tuple[nn.Module, list[Tensor]]:
    """A layer of Allegro and its arguments."""
    target = edges()[1]
    with seeded(4):
        if name == "channels":
            module = MakeWeightedChannels("0e+1o+2e", 3, *options)
            return module, [random(EDGES, 9), random(EDGES, module.weight_numel, seed=1)]
        layer = Contracter(*options)
    x1 = random(EDGES, layer.mul, layer.base_dim1)
    return layer, [x1, random(NODES, layer.mul, layer.base_dim2, seed=1), target]


CONTRACTERS: dict[str, tuple[Any, ...]] = {
    "all paths": ("0e+1o+2e", "0e+1o", "0e+1o+1e+2e+2o", 4),
    "weights of paths": ("0e+1o", "0e+1o+2e", "0e+1o", 3, False),
    "scalars": ("0e+1o+2e", "0e+1o+2e", "0e", 2),
    "one path": ("1o", "2e", "1o", 3),
    "one scalar, one weight": ("1o", "1o", "0e", 2, False),
}


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


def contraction(irreps_in: str, irreps_out: str, correlation: int, elements: int) -> Any:
    """Make a contraction, and features and elements for it."""
    with seeded(2):
        module = SymmetricContraction(irreps_in, irreps_out, correlation, elements)
    channels = module.contractions[0].weights_max.shape[2]
    x = random(5, channels, module.irreps_in.dim // channels)
    return module, (x, torch.softmax(random(5, elements, seed=1), dim=1))


def dense_couplings(ins: tuple[tuple[int, int], ...], order: int, ir: tuple[int, int]) -> Tensor:
    """Coupling tensors (2 l + 1, dim, ..., dim, paths); no leading axis for scalars."""
    dim, paths = sum(2 * l + 1 for l, _ in ins), coupled_polynomials(ins, order, ir, "mace")
    tensor = torch.zeros(2 * ir[0] + 1, *[dim] * order, len(paths), dtype=torch.float64)
    for k, path in enumerate(paths):
        for place, index in enumerate(monomials(dim, order)):
            tensor[(slice(None), *reversed(index), k)] = path.values[:, place]
    return (tensor[0] if ir[0] == 0 else tensor).to(torch.get_default_dtype())


def stand_in(monkeypatch: Any) -> None:
    """Pretend that the libraries are loaded, and have these classes."""
    classes = {
        "nequip.nn._tp_scatter_base": TensorProductScatter,
        "mace.modules.blocks": InteractionBlock,
        "mace.modules.symmetric_contraction": SymmetricContraction,
        "sevenn.nn.convolution": IrrepsConvolution,
        "allegro.nn._strided._contract": Contracter,
        "allegro.nn._strided._channels": MakeWeightedChannels,
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
    """A convolution as in NequIP, MACE or SevenNet, and its arguments."""
    product = build("channelwise")
    *features, target, source = convolution_inputs(product)
    if library == "nequip":
        return TensorProductScatter(product), [*features, target, source]
    if library == "sevenn":
        with seeded(0):
            layer = FeaturesOfGraph(IrrepsConvolution(product))
        return layer, [*features[:2], random(EDGES, 3, seed=2), torch.stack([target, source])]
    return InteractionBlock(product), [*features, torch.stack([source, target])]


def scatter(src: Tensor, index: Tensor, dim: int = 0, dim_size: int | None = None) -> Tensor:
    """Sum rows, as ``torch_scatter.scatter`` along the first axis."""
    size = int(index.max()) + 1 if dim_size is None else dim_size
    return src.new_zeros(size, *src.shape[1:]).index_add(dim, index, src)


def radius_graph(x: Tensor, r: float, batch: Tensor, max_num_neighbors: int = 32) -> Tensor:
    """Find neighbors, as ``torch_cluster.radius_graph``."""
    near = (torch.cdist(x, x) < r) & (batch[:, None] == batch)
    return near.fill_diagonal_(False).nonzero().T


def stand_in_scatter(set_module: Callable[[str, Any], object]) -> None:
    """Pretend that both libraries are there."""
    for name, function in (("torch_scatter", scatter), ("torch_cluster", radius_graph)):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # PyTorch Geometric asks whether there is one
        setattr(module, function.__name__, function)
        set_module(name, module)


POINTS_CONVOLUTIONS: dict[str, tuple[list[str], tuple[Any, ...]]] = {
    "gate_points_2101": (["sc", "lin1", "lin2"], (3, 1, 8)),
    "gate_points_2102": (["sc", "lin1", "lin2"], (3, 1, 8)),
    "v2103.points_convolution": (["sc", "lin1", "lin2", "lin3"], ([3, 8],)),
    "v2106.points_convolution": (["sc", "lin1", "lin2", "alpha"], ([3, 8],)),
}
"""Inner products by version, and how its radial network is given."""


def points_convolution(
    version: str = "v2106.points_convolution",
    irreps: str = "4x0e+4x0o+2x1o+2x1e",
    node_attr: str = "2x0e",
    edge_attr: str = "0e+1o+2e",
    irreps_out: str = "4x0e+3x1o+2x2e",
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Make a convolution of one of the networks, and arguments for it."""
    with pytest.MonkeyPatch.context() as patch:
        stand_in_scatter(partial(patch.setitem, sys.modules))
        cls = import_module(f"e3nn.nn.models.{version}").Convolution
    _, radial = POINTS_CONVOLUTIONS[version]
    with seeded(0):
        module = cls(irreps, node_attr, edge_attr, irreps_out, *radial, 3.0)
        for parameter in module.parameters():
            nn.init.normal_(parameter)
    source, target = edges()
    attributes = random(NODES, module.sc.irreps_in2.dim, seed=3)
    features = random(NODES, module.tp.irreps_in1.dim)
    return module, (
        features,
        attributes,
        source,
        target,
        random(EDGES, module.tp.irreps_in2.dim, seed=1),
        random(EDGES, 3, seed=2),
    )
