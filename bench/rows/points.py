"""Searches in clouds, networks of points and embeddings beside plain PyTorch of their papers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn

from bench.peers import Library, drawn, of_module
from bench.row import GEOMETRIC, Problem, Row, library, needs
from bench.rows import plain
from equigeo import mds
from equigeo import points as networks
from equigeo.groups import SO
from equigeo.mds.frames import KINDS
from equigeo.ops import symmetric_eigen
from equigeo.points import search as searches
from equigeo.reps import Points

CLASSES, NEIGHBORS, SHARE = 10, 16, 8
SHAPES = ((32, 256), (8, 4096))
CLUSTER = "make bench-cluster"


def spheres(count: int, points: int) -> Tensor:
    """Points on spheres, as scans are points on surfaces."""
    (x,) = drawn((count, points, 3))
    return nn.functional.normalize(x.detach(), dim=-1)


def by_ourselves(search: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Search without torch-cluster, also where it is installed."""
    chosen = searches.torch_cluster

    def call(x: Tensor) -> Any:
        searches.torch_cluster = lambda: None  # type: ignore[assignment]
        try:
            return search(x)
        finally:
            searches.torch_cluster = chosen

    return call


def in_cluster(x: Tensor, search: Callable[[Any, Tensor, Tensor], Any]) -> Library:
    """A search of torch-cluster, of points (B * P, 3) and the numbers of their clouds."""
    flat, batch = x.flatten(0, 1), torch.arange(len(x)).repeat_interleave(x.shape[1])
    module: Any = searches.torch_cluster()
    return library(lambda _: search(module, flat, batch), [x])


def agree_in_distances(x: Tensor, *found: Tensor) -> None:
    """Indices may differ where distances do not; squares of all pairs cancel, to a root of eps."""
    distances = [(plain.pick(x, near) - x[:, :, None]).norm(dim=-1) for near in found]
    for other in distances[1:]:
        torch.testing.assert_close(other, distances[0], rtol=1e-4, atol=1e-3)


def nearest(shape: tuple[int, int]) -> Problem:
    x = spheres(*shape)
    ours = by_ourselves(lambda x: networks.nearest_neighbors(x, NEIGHBORS))

    def tree(x: Tensor) -> Tensor:
        found = [cKDTree(cloud.numpy()).query(cloud.numpy(), NEIGHBORS)[1] for cloud in x]
        return torch.stack([torch.as_tensor(each) for each in found])

    def all_pairs(x: Tensor) -> Tensor:
        return plain.nearest(x, x, NEIGHBORS)

    def knn(module: Any, flat: Tensor, batch: Tensor) -> Tensor:
        return module.knn(flat, flat, NEIGHBORS, batch, batch)

    agree_in_distances(x, ours(x), tree(x), all_pairs(x))
    peers = {"scipy's tree": library(tree, [x]), "PyTorch": library(all_pairs, [x])}
    peer = needs("torch_cluster", CLUSTER, partial(in_cluster, x, knn))
    return Problem(library(ours, [x]), {**peers, "torch-cluster": peer})


def radius(shape: tuple[int, int]) -> Problem:
    """Balls with about as many points of a unit sphere as neighbors are asked for."""
    x, size = spheres(*shape), 2 * (NEIGHBORS / shape[1]) ** 0.5
    ours = by_ourselves(lambda x: networks.radius_neighbors(x, size, 4 * NEIGHBORS))

    def tree(x: Tensor) -> list[Any]:
        return [cKDTree(cloud.numpy()).query_ball_point(cloud.numpy(), size) for cloud in x]

    _, inside = ours(x)
    counts = torch.tensor([[len(near) for near in cloud] for cloud in tree(x)])
    # Points at the rounded radius may be inside or not.
    assert (inside.sum(-1) - counts).abs().float().mean() < 1e-3
    return Problem(library(ours, [x]), {"scipy's tree": library(tree, [x])})


def sampling(shape: tuple[int, int]) -> Problem:
    x, count = spheres(*shape), shape[1] // SHARE
    ours = by_ourselves(lambda x: networks.farthest_point_sampling(x, count))
    peer = library(lambda x: plain.farthest(x, count), [x], wanted="ours")

    def fps(module: Any, flat: Tensor, batch: Tensor) -> Tensor:
        return module.fps(flat, batch, ratio=1 / SHARE, random_start=False)

    cluster = needs("torch_cluster", CLUSTER, partial(in_cluster, x, fps))
    return Problem(library(ours, [x]), {"PyTorch": peer, "torch-cluster": cluster})


HIDDEN = (256, 128)
CLOUDS = {"PointNet": 8, "PointNetPlusPlus": 8, "DGCNN": 2, "PointTransformer": 8}
SIZES: dict[str, tuple[Any, ...]] = {
    "PointNet": ((64, 64, 128, 512),),
    "PointNetPlusPlus": ((64, 16), NEIGHBORS, ((32, 64), (128, 128)), 512),
    "DGCNN": ((64, 64, 128, 256), 20, 1024),
    "PointTransformer": ((128, 64), NEIGHBORS, 64, 4, 512),
}


def network(name: str) -> Problem:
    """Beside the network of the paper with the same weights, in evaluation and in training."""
    x = [drawn((CLOUDS[name], 1024, 3))[0].detach()]
    options: dict[str, Any] = {"dropout": 0.0, "hidden": HIDDEN}
    if name == "PointNetPlusPlus":
        options["distances"] = False
    ours = getattr(networks, name)(CLASSES, *SIZES[name], **options)
    peer = getattr(plain, name)(*SIZES[name], HIDDEN, CLASSES)
    peers: dict[str, Library | str] = {}
    if name == "DGCNN":
        peer.take(ours)
        peers["PyG"] = needs(*GEOMETRIC, partial(_pyg, x, ours))
    else:
        plain.take_weights(peer, ours)
    # Batch norm of our DGCNN acts on maxima: equal in evaluation alone. Parameters have other
    # shapes, and their gradients are not compared.
    peers["PyTorch"] = of_module(peer, x, wanted="ours", same=("forward",))
    return Problem(of_module(ours, x), peers, "products")


def _pyg(x: list[Tensor], ours: nn.Module) -> Library:
    peer = plain.GeometricDGCNN(*SIZES["DGCNN"], HIDDEN, CLASSES)
    peer.take(ours)
    return of_module(peer, x, wanted="ours", same=("forward",))


SMALL = (64, 64, 128)


def invariant(kind: str) -> Problem:
    """Beside four frames of the same network, and vector neurons of as many numbers."""
    x = [drawn((16, 1024, 3))[0].detach() * torch.tensor([3.0, 2.0, 1.0])]
    x = [(y + 0.2 * y.square()).requires_grad_() for y in x]
    inner = plain.PointNet(SMALL, (128,), CLASSES)
    layer = mds.Invariant(inner, group="SO", scale="none", kind=kind)
    exact = kind == "frames"  # the same four frames
    wanted: dict[str, Any] = {"wanted": "ours" if exact else None, "same": ("forward",)}
    frames = of_module(inner, x, partial(plain.four_frames, inner), **wanted)
    neurons = of_module(plain.VectorNeurons(SMALL, (128,), CLASSES), x)
    bound = of_module(inner, x)
    peers = {"four frames": frames, "vector neurons": neurons}
    return Problem(of_module(layer, x), peers, bound)


def eager(x: Tensor) -> Tensor:
    """Center, rotate and fix signs, with sums in float64 as the op."""
    wide = x.double()
    centred = wide - wide.mean(1, keepdim=True)
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(-1)
    y = centred @ axes
    return (y * torch.where(y.pow(3).sum(1, keepdim=True) < 0, -1.0, 1.0)).float()


def embedding(shape: tuple[int, int]) -> Problem:
    (x,) = drawn((*shape, 3))
    x = ((x + 0.2 * x.square()) * torch.tensor([3.0, 2.0, 1.0])).detach().requires_grad_()
    peer = library(eager, [x], wanted="ours", same=("forward",))
    return Problem(library(lambda x: mds.embed(x).y, [x]), {"PyTorch": peer}, 8 * x.numel())


def large_cloud() -> Problem:
    (x,) = drawn((1_000_000, 3))
    x = x.detach() * torch.tensor([3.0, 2.0, 1.0])
    return Problem(library(lambda x: mds.embed(x).y, [x]), bound=8 * x.numel())


def eigenvectors() -> Problem:
    (x,) = drawn((100_000, 3, 3))
    x = (x + x.mT).detach()
    peer = library(lambda x: torch.linalg.eigh(x).eigenvalues.flip(-1), [x], wanted="ours")
    ours = symmetric_eigen(x)[0]
    order = (lambda v: v) if bool((ours[:, 0] >= ours[:, -1]).all()) else (lambda v: v.flip(-1))
    return Problem(library(lambda x: order(symmetric_eigen(x)[0]), [x]), {"PyTorch": peer})


def invariant_network() -> Problem:
    """Beside the network of coordinates alone."""
    x = [drawn((16, 1024, 3))[0].detach() * torch.tensor([3.0, 2.0, 1.0])]
    model = mds.InvariantPointNet.preset("pointnet", CLASSES, settings={"dropout": 0.0})
    return Problem(of_module(model, x), bound=of_module(model.invariant.network, x))


def canonicalized() -> Problem:
    """Beside the network of points alone."""
    x = [drawn((8, 16, 3))[0].detach()]
    inner, outer = (
        nn.Sequential(nn.Linear(3, 32), nn.Tanh(), _Mean(), nn.Linear(32, n)) for n in (1, 8)
    )
    energy = nn.Sequential(inner, nn.Flatten(0))
    model = mds.Canonicalized(outer, energy, Points(SO(3)), starts=4, steps=10)
    return Problem(of_module(model, x), bound=of_module(outer, x))


class _Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-2)


def tours() -> Problem:
    model = mds.AttentionModel(mds.AttentionModelConfig.preset("default"))
    x = [torch.rand(64, 20, 2, generator=torch.Generator().manual_seed(0))]
    return Problem(of_module(model, x, lambda x: model(x).log_prob), bound="products")


def rows() -> list[Row]:
    found = [
        Row(
            f"points.{name}", f"{count} clouds of {size:,}", partial(make, (count, size)),
            ("forward",), count * size, "point", "short" if size < 1000 else "usual",
            "Clouds are validated, and ties and rounding are settled; the peers do neither.",
            ("cluster",),
        )
        for name, make in (
            ("nearest_neighbors", nearest),
            ("radius_neighbors", radius),
            ("farthest_point_sampling", sampling),
        )
        for count, size in SHAPES
    ]  # fmt: skip
    found += [
        Row(
            f"points.{name}", f"{count} clouds of 1,024", partial(network, name), size="short",
            why="Maxima over points run across rows of channels; the peer has points innermost.",
        )
        for name, count in CLOUDS.items()
    ]  # fmt: skip
    found += [
        Row("mds.Invariant", f"{kind}, 16 clouds of 1,024", partial(invariant, kind), size="short")
        for kind in ("skew", *KINDS)
    ]
    found += [
        Row(
            "mds.embed", f"{a} clouds of {b:,}", partial(embedding, (a, b)), count=a * b,
            unit="point",
        )
        for a, b in ((4096, 32), (1024, 128), (64, 1024))
    ]  # fmt: skip
    return [
        *found,
        Row(
            "mds.embed", "one cloud of 1,000,000", large_cloud, ("forward",), 1_000_000, "point"
        ),
        Row(
            "ops.symmetric_eigen", "100,000 matrices", eigenvectors, ("forward",), 100_000,
            "matrix",
        ),
        Row(
            "mds.InvariantPointNet", "pointnet, 16 clouds of 1,024", invariant_network,
            size="short",
        ),
        Row("mds.Canonicalized", "8 clouds of 16", canonicalized, size="short"),
        Row("mds.AttentionModel", "default, 64 tours of 20 cities", tours, size="short"),
    ]  # fmt: skip
