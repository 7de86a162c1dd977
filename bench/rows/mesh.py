"""Layers and networks of meshes beside graph attention, DiffusionNet and MeshCNN of equal width."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import trimesh
from torch import Tensor, nn

from bench.peers import Library, drawn, of_module
from bench.row import GEOMETRIC, Problem, Row, library, needs
from bench.rows.plain import DiffusionNetBlock, MeshCNNConv, Surface, edges_beside
from equigeo import mesh
from equigeo.mesh.nn.norm import RectifiedBatchNorm
from equigeo.mesh.nn.readout import Readout
from equigeo.ops import segment_attention
from equigeo.reps import Irreps

WIDTH, BLOCKS, CLASSES = 32, 4, 8
SIDES = {"10^3 faces": 22, "10^5 faces": 224, "10^6 faces": 708}
FACES = {name: 2 * side**2 for name, side in SIDES.items()}
FIELDS = Irreps("8x0e+8x1o")


def torus(side: int) -> mesh.TriangleMesh:
    """A torus of ``2 * side * side`` faces."""
    made = trimesh.creation.torus(2.0, 1.0, major_sections=side, minor_sections=side)
    return mesh.TriangleMesh(made.vertices, made.faces)


@cache
def graph(size: str) -> mesh.PrimalDualGraph:
    return mesh.PrimalDualClassifier.preset("default", num_classes=CLASSES).graph(
        torus(SIDES[size])
    )


def features(size: str, width: int = WIDTH) -> list[Tensor]:
    found = graph(size)
    return drawn((found.num_primal, width), (found.num_dual, width))


def streams(found: mesh.PrimalDualGraph) -> tuple[Tensor, Tensor]:
    return found.x_primal, found.x_dual


def geometric_attention(size: str) -> Library:
    """Attention over the three neighbors of each face."""
    from torch_geometric.nn import GATConv

    edges = graph(size).primal
    pairs = torch.stack([edges.source, edges.target])
    conv = GATConv(WIDTH, WIDTH, add_self_loops=False)
    return of_module(conv, drawn((len(graph(size).x_primal), WIDTH)), lambda x: conv(x, pairs))


def diffusion_block(size: str) -> Library:
    faces = torus(SIDES[size]).faces
    surface, block = Surface(faces), DiffusionNetBlock(WIDTH)
    return of_module(block, drawn((len(surface.mass), WIDTH)), lambda x: block(x, surface))


def mesh_cnn(size: str) -> Library:
    beside = edges_beside(torus(SIDES[size]).faces)
    conv = MeshCNNConv(WIDTH, WIDTH)
    return of_module(conv, drawn((len(beside), WIDTH)), lambda x: conv(x, beside))


def peers(size: str) -> dict[str, Library | str]:
    found: dict[str, Library | str] = {
        "GATConv of PyG": needs(*GEOMETRIC, partial(geometric_attention, size)),
        "MeshCNN convolution": mesh_cnn(size),
    }
    return found | ({} if size == "10^6 faces" else {"DiffusionNet block": diffusion_block(size)})


def moved(size: str, width_in: int = WIDTH, width_out: int = WIDTH) -> int:
    """Bytes of features of both streams, read and written once."""
    found = graph(size)
    return 4 * (found.num_primal + found.num_dual) * (width_in + width_out)


def conv(size: str) -> Problem:
    layer = mesh.PrimalDualConv((WIDTH, WIDTH), (WIDTH, WIDTH), self_term=True)
    ours = of_module(layer, features(size), lambda p, d: layer(graph(size), p, d)[:2])
    return Problem(ours, peers(size), moved(size))


def field_conv(size: str) -> Problem:
    layer = mesh.PrimalDualFieldConv((FIELDS, FIELDS), (FIELDS, FIELDS))
    x = features(size, FIELDS.dim)
    ours = of_module(layer, x, lambda p, d: layer(graph(size), p, d))
    return Problem(ours, peers(size), moved(size))


def masked_attention(size: str) -> Problem:
    """Attention of 4 heads over two hops of vertices, beside TransformerConv of PyG."""
    mask = mesh.attention_mask(torus(SIDES[size]), hops=2)
    layer = mesh.MaskedAttention(f"{WIDTH}x0e", f"{WIDTH}x0e", channels=WIDTH // 4)
    x = drawn((mask.num_targets, WIDTH))

    def transformer() -> Library:
        from torch_geometric.nn import TransformerConv

        conv = TransformerConv(WIDTH, WIDTH // 4, heads=4, root_weight=False)
        return of_module(conv, x, lambda x: conv(x, mask.edge_index))

    peer = needs(*GEOMETRIC, transformer)
    return Problem(of_module(layer, x, lambda x: layer(x, mask)), {"TransformerConv of PyG": peer})


def block(size: str) -> Problem:
    layer = mesh.ResidualBlock((WIDTH, WIDTH), (WIDTH, WIDTH), self_term=True)
    ours = of_module(layer, features(size), lambda p, d: streams(layer(graph(size), p, d)[0]))
    return Problem(ours, bound=moved(size))


def norm(size: str) -> Problem:
    layer = RectifiedBatchNorm(WIDTH)
    x = drawn((graph(size).num_primal, WIDTH))
    weight, bias = (y.detach() for y in (layer.weight, layer.bias))

    def peer(x: Tensor) -> Tensor:
        training = torch.is_grad_enabled()
        mean, variance = (None, None) if training else (torch.zeros(WIDTH), torch.ones(WIDTH))
        return nn.functional.batch_norm(x.relu(), mean, variance, weight, bias, training)

    fixed = layer.requires_grad_(False)
    # PyTorch's gradient of many rows has errors of its sums in float32.
    others = {"PyTorch": library(peer, x, wanted="ours", same=("forward",))}
    return Problem(of_module(fixed, x), others)


def pool(size: str) -> Problem:
    layer, given = mesh.EdgePool(2 / 3), graph(size)
    attention = torch.rand(given.primal.num_edges, 1, generator=torch.Generator().manual_seed(0))
    x = features(size)
    ours = library(lambda *x: streams(layer(given.with_features(*x), attention)[0]), x)
    return Problem(ours, bound=moved(size, WIDTH, WIDTH // 2))


def unpool(size: str) -> Problem:
    given = graph(size).with_features(*features(size))
    attention = torch.rand(given.primal.num_edges, 1, generator=torch.Generator().manual_seed(0))
    pooled, log = mesh.EdgePool(2 / 3)(given, attention)
    x = [y.detach().requires_grad_() for y in streams(pooled)]
    ours = library(lambda *given: mesh.unpool(log, *given)[1:], [*x, *drawn((WIDTH,))])
    return Problem(ours, bound=moved(size, WIDTH // 2, WIDTH))


def readout(size: str) -> Problem:
    layer = Readout("both", ("mean", "max"), area_weighted=True)
    given = graph(size)
    ours = library(lambda *x: layer(given.with_features(*x)), features(size))
    return Problem(ours, bound=moved(size, WIDTH, 0))


def network(make: Callable[[], nn.Module], size: str) -> Problem:
    """Beside four blocks of DiffusionNet, and a linear map of their means or rows."""
    model, given = make(), graph(size)

    def call() -> Any:
        if head := getattr(model, "head", None):
            head.eval()  # batch statistics of the head need two meshes
        return model(given)

    ours = of_module(model, [], call)
    surface = Surface(torus(SIDES[size]).faces)
    layers = nn.ModuleList(DiffusionNetBlock(WIDTH) for _ in range(BLOCKS))
    (x,) = drawn((len(surface.mass), WIDTH))

    def diffusion(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, surface)
        return x

    peer = of_module(layers, [x.detach()], diffusion)
    return Problem(ours, {"four DiffusionNet blocks": peer}, "products")


def attention(size: str, heads: int) -> Problem:
    """The op on the dual graph, beside softmax and scatter of PyTorch Geometric."""
    edges = graph(size).dual_edges
    values, logits = drawn((edges.num_sources, heads, WIDTH), (edges.num_edges, heads))
    lists = (edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr)

    def geometric() -> Library:
        from torch_geometric.utils import scatter, softmax

        def attend(values: Tensor, logits: Tensor) -> Tensor:
            weights = softmax(logits, edges.target, ptr=edges.ptr, num_nodes=edges.num_targets)
            messages = weights[:, :, None] * values.index_select(0, edges.source)
            return scatter(messages, edges.target, 0, dim_size=edges.num_targets, reduce="sum")

        return library(attend, [values, logits], wanted="ours")

    ours = library(lambda v, l: segment_attention(v, l, *lists)[0], [values, logits])
    peer = needs(*GEOMETRIC, geometric)
    return Problem(ours, {"PyG": peer}, 4 * (2 * values.numel() + logits.numel()))


def attention_conv(size: str) -> Problem:
    """The fused convolution by attention, beside a matrix product and attention."""
    edges = graph(size).dual_edges
    x, logits, weight, own = drawn(
        (edges.num_sources, WIDTH), (edges.num_edges, 1), *[(WIDTH, WIDTH)] * 2
    )
    lists = (edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr)

    def separate(x: Tensor, logits: Tensor, weight: Tensor, own: Tensor) -> Tensor:
        values = (x @ weight.mT)[:, None]
        return torch.addmm(segment_attention(values, logits, *lists)[0].flatten(1), x, own.mT)

    given = [x, logits, weight, own]
    ours = library(lambda *y: edges.attend_linear(*y)[0], given)
    return Problem(ours, {"product and attention": library(separate, given, wanted="ours")})


def construction(size: str) -> Problem:
    """Primal and dual graph of a mesh."""
    mesh_of, make = torus(SIDES[size]), mesh.PrimalDualGraph.from_mesh
    return Problem(library(lambda: make(mesh_of), []))


LAYERS: dict[str, Callable[[str], Problem]] = {
    "mesh.PrimalDualConv": conv,
    "mesh.PrimalDualFieldConv": field_conv,
    "mesh.MaskedAttention": masked_attention,
    "mesh.ResidualBlock": block,
    "mesh.PrimalDualGraph": construction,
    "mesh.EdgePool": pool,
    "mesh.unpool": unpool,
    "mesh.nn.RectifiedBatchNorm": norm,
    "mesh.nn.Readout": readout,
    "mesh.PrimalDualClassifier": partial(
        network, lambda: mesh.PrimalDualClassifier.preset("default", CLASSES, dropout=0.0)
    ),
    "mesh.PrimalDualSegmenter": partial(
        network, lambda: mesh.PrimalDualSegmenter.preset("default", CLASSES, dropout=0.0)
    ),
    "ops.segment_attention": partial(attention, heads=1),
    "ops.attention_conv": attention_conv,
}
LEVELS = {"10^3 faces": "short", "10^5 faces": "usual", "10^6 faces": "large"}


TWO_GRAPHS = "It convolves two graphs: nodes are faces, and pairs of adjacent faces."
ON_VERTICES = "DiffusionNet works on vertices, and its eigenvectors are given."
WHYS = {
    "mesh.PrimalDualConv": TWO_GRAPHS,
    "mesh.PrimalDualFieldConv": TWO_GRAPHS,
    "mesh.PrimalDualClassifier": f"{TWO_GRAPHS} {ON_VERTICES}",
    "mesh.PrimalDualSegmenter": f"{TWO_GRAPHS} {ON_VERTICES}",
    "mesh.nn.RectifiedBatchNorm": "In evaluation it calls PyTorch's batch norm behind checks.",
}


def rows() -> list[Row]:
    return [
        Row(
            name, size, partial(make, size),
            ("forward",) if make is construction else ("forward", "both"),
            FACES[size], "face", LEVELS[size], WHYS.get(name, ""),
        )
        for name, make in LAYERS.items()
        for size in SIDES
    ]  # fmt: skip
