"""Layers and networks of papers in plain PyTorch: peers written from the published formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Shared(nn.Module):
    """Linear map over channels (B, C, ...), batch norm and (leaky) ReLU."""

    def __init__(self, channels: int, width: int, dims: int, slope: float = 0.0) -> None:
        super().__init__()
        conv, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d))[dims - 1]
        self.conv, self.norm, self.slope = conv(channels, width, 1, bias=False), norm(width), slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.conv(x)), self.slope)


class Head(nn.Module):
    """Layers of vectors (B, C) to logits."""

    def __init__(self, widths: Sequence[int], classes: int, slope: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for a, b in pairwise(widths):
            self.layers.extend([nn.Linear(a, b, bias=False), nn.BatchNorm1d(b)])
        self.last, self.slope = nn.Linear(widths[-1], classes), slope

    def forward(self, x: Tensor) -> Tensor:
        for linear, norm in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = F.leaky_relu(norm(linear(x)), self.slope)
        return self.last(x)


def chain(widths: Sequence[int], dims: int) -> nn.Sequential:
    return nn.Sequential(*(Shared(a, b, dims) for a, b in pairwise(widths)))


def take_weights(network: nn.Module, other: nn.Module) -> None:
    """Copy parameters in their order, up to axes of length one."""
    pairs = zip(network.parameters(), other.parameters(), strict=True)
    for mine, theirs in pairs:
        mine.data.copy_(theirs.data.view_as(mine))


def nearest(x: Tensor, centers: Tensor, k: int) -> Tensor:
    """Indices (B, Q, k) of the nearest points (B, P, C), by all distances."""
    return torch.cdist(centers, x).topk(k, largest=False).indices


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Rows (B, ..., C) of points (B, P, C)."""
    batch = torch.arange(len(x)).view(-1, *[1] * (index.ndim - 1))
    return x[batch, index]


def farthest(x: Tensor, count: int) -> Tensor:
    """Farthest point sampling (B, count), starting with the point farthest from the origin."""
    rows, chosen = torch.arange(len(x)), [x.square().sum(-1).argmax(1)]
    distance = x.new_full(x.shape[:2], torch.inf)
    for _ in range(count - 1):
        last = x[rows, chosen[-1]][:, None]
        distance = torch.minimum(distance, (x - last).square().sum(-1))
        chosen.append(distance.argmax(1))
    return torch.stack(chosen, 1)


class PointNet(nn.Module):
    """Qi et al. 2017, without input transforms."""

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.points = chain([3, *widths], 1)
        self.head = Head([widths[-1], *hidden], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x.mT).amax(-1))


class PointNetPlusPlus(nn.Module):
    """Qi et al. 2017, groups of nearest neighbors."""

    def __init__(
        self, groups: Sequence[int], k: int, widths: Sequence[Sequence[int]], features: int,
        hidden: Sequence[int], classes: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.counts, self.k = groups, k
        inputs = [3, *(3 + width[-1] for width in widths)]
        self.groups = nn.ModuleList(
            chain([a, *w], 2) for a, w in zip(inputs[:-1], widths, strict=True)
        )
        self.features = Shared(inputs[-1], features, 1)
        self.head = Head([features, *hidden], classes)

    def forward(self, x: Tensor) -> Tensor:
        f: Tensor | None = None
        for count, layers in zip(self.counts, self.groups, strict=True):
            centers = pick(x, farthest(x, count))
            near = nearest(x, centers, self.k)
            y = pick(x, near) - centers[:, :, None]
            y = y if f is None else torch.cat([y, pick(f, near)], -1)
            f, x = layers(y.permute(0, 3, 1, 2)).amax(-1).mT, centers
        assert f is not None
        return self.head(self.features(torch.cat([x, f], -1).mT).amax(-1))


class DGCNN(nn.Module):
    """Wang et al. 2019; neighbors from products of features, as in the published code."""

    def __init__(
        self, widths: Sequence[int], k: int, features: int, hidden: Sequence[int], classes: int
    ) -> None:
        super().__init__()
        self.k = k
        self.convs = nn.ModuleList(Shared(2 * a, b, 2, 0.2) for a, b in pairwise([3, *widths]))
        self.features = Shared(sum(widths), features, 1, 0.2)
        self.head = Head([2 * features, *hidden], classes, 0.2)

    def forward(self, x: Tensor) -> Tensor:
        x, seen = x.mT, []
        for conv in self.convs:
            x = self.convolve(conv, x)
            seen.append(x)
        x = self.features(torch.cat(seen, 1))
        return self.head(torch.cat([x.amax(-1), x.mean(-1)], 1))

    def convolve(self, conv: nn.Module, x: Tensor) -> Tensor:
        inner = -2 * x.mT @ x
        squares = x.square().sum(1, keepdim=True)
        near = (-squares - inner - squares.mT).topk(self.k, -1).indices
        rows = x.mT
        centers = rows[:, :, None].expand(-1, -1, self.k, -1)
        edges = torch.cat([centers, pick(rows, near) - centers], -1)
        return conv(edges.permute(0, 3, 1, 2)).amax(-1)

    def take(self, ours: nn.Module) -> None:
        """Copy weights of ours, whose center map is the difference of two."""
        for conv, own in zip(self.convs, ours.convolutions, strict=True):  # type: ignore[arg-type]
            near = own.layer.linear.weight.data
            weight = torch.cat([own.center.weight.data + near, near], 1)
            conv.conv.weight.data.copy_(weight[..., None, None])
            conv.norm.load_state_dict(own.layer.norm.state_dict())
        take_weights(self.features, ours.features)  # type: ignore[arg-type]
        take_weights(self.head, ours.head)  # type: ignore[arg-type]


class OffsetAttention(nn.Module):
    """Guo et al. 2021, equations 5 to 8."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.keys = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.values = nn.Conv1d(channels, channels, 1)
        self.layer = Shared(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        keys = self.keys(x)
        attention = (keys.mT @ keys).softmax(-1)
        attention = attention / (1e-9 + attention.sum(1, keepdim=True))
        return x + self.layer(x - self.values(x) @ attention.mT)


class PointTransformer(nn.Module):
    """Guo et al. 2021: two groupings, attention between what is left."""

    def __init__(
        self, groups: Sequence[int], k: int, width: int, attentions: int, features: int,
        hidden: Sequence[int], classes: int,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = [width // 2, *(width << level for level in range(len(groups)))]
        self.counts, self.k = groups, k
        self.first = Shared(3, widths[0], 1)
        self.groups = nn.ModuleList(chain([2 * a, b, b], 2) for a, b in pairwise(widths))
        self.attentions = nn.ModuleList(OffsetAttention(widths[-1]) for _ in range(attentions))
        self.features = Shared((attentions + 1) * widths[-1], features, 1, 0.2)
        self.head = Head([features, *hidden], classes)

    def forward(self, x: Tensor) -> Tensor:
        f = self.first(x.mT)
        for count, layers in zip(self.counts, self.groups, strict=True):
            few, rows = farthest(x, count), f.mT
            near = nearest(x, pick(x, few), self.k)
            centers = pick(rows, few)[:, :, None].expand(-1, -1, self.k, -1)
            y = torch.cat([pick(rows, near) - centers, centers], -1)
            f, x = layers(y.permute(0, 3, 1, 2)).amax(-1), pick(x, few)
        seen = [f]
        for attention in self.attentions:
            seen.append(attention(seen[-1]))
        return self.head(self.features(torch.cat(seen, 1)).amax(-1))


class GeometricDGCNN(DGCNN):
    """The same network by EdgeConv of PyTorch Geometric."""

    def __init__(self, *sizes: Any) -> None:
        from torch_geometric.nn import EdgeConv

        super().__init__(*sizes)
        self.edges = nn.ModuleList(EdgeConv(_Rows(conv), aggr="max") for conv in self.convs)

    def forward(self, x: Tensor) -> Tensor:
        count, points, _ = x.shape
        rows, seen = x.flatten(0, 1), []
        offset = points * torch.arange(count).view(-1, 1, 1)
        target = torch.arange(count * points).repeat_interleave(self.k)
        for conv in self.edges:
            clouds = rows.view(count, points, -1)
            near = nearest(clouds, clouds, self.k) + offset
            rows = conv(rows, torch.stack([near.flatten(), target]))
            seen.append(rows)
        x = self.features(torch.cat(seen, 1).view(count, points, -1).mT)
        return self.head(torch.cat([x.amax(-1), x.mean(-1)], 1))


class _Rows(nn.Module):
    """A shared layer on rows (rows, C)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.mT[None, :, :, None])[0, :, :, 0].mT
        return found


class VectorNeurons(nn.Module):
    """Deng et al. 2021: layers of vectors, batch norm of lengths, invariants of their products."""

    groups: tuple[int, ...] = ()  # centers and neighbors of each; without, points alone

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        channels = (max(1, width // 3) for width in widths)
        pairs = list(pairwise([3 if self.groups else 1, *channels]))
        self.maps = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        self.directions = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(b) for _, b in pairs)
        self.head = Head([pairs[-1][1] * 3, *hidden], classes)
        self.frame = nn.Linear(pairs[-1][1], 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        v = self.edges(x) if self.groups else x.mT[..., None]  # (B, 3, P, 1)
        for linear, direction, norm in zip(self.maps, self.directions, self.norms, strict=True):
            q, k = linear(v), direction(v)
            length = torch.linalg.vector_norm(q, dim=1) + 1e-6
            scaled = norm(length.flatten(0, 1)).view_as(length)
            q = q * (scaled / length)[:, None]
            dot, square = (q * k).sum(1, keepdim=True), k.square().sum(1, keepdim=True) + 1e-6
            v = torch.where(dot >= 0, q, q - dot / square * k)
            if self.groups and norm is self.norms[0]:
                v = v.unflatten(2, (-1, self.groups[1])).mean(3)
        pooled = v.mean(2)  # (B, 3, C)
        return self.head((pooled.mT @ self.frame(pooled)).flatten(1))

    def edges(self, x: Tensor) -> Tensor:
        """Differences, centers and cross products, (B, 3, centers * neighbors, 3)."""
        few = pick(x, farthest(x, self.groups[0]))
        near = pick(x, nearest(x, few, self.groups[1]))
        centers = few[:, :, None].expand_as(near)
        v = torch.stack([near - centers, centers, torch.linalg.cross(near, centers)], -1)
        return v.flatten(1, 2).transpose(1, 2)


def four_frames(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Puny et al. 2022: the average over the four frames of principal axes in SO(3)."""
    centred = x - x.mean(1, keepdim=True)
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(-1)
    axes = torch.cat([axes[..., :2], torch.linalg.cross(axes[..., 0], axes[..., 1])[..., None]], -1)
    y = centred @ axes
    signs = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    frames = (y * signs[:, None, None]).flatten(0, 1)
    found: Tensor = network(frames).unflatten(0, (4, len(x))).mean(0)
    return found


class DiffusionNetBlock(nn.Module):
    """Sharp et al. 2022: learned diffusion, products of gradients, a perceptron, a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.time = nn.Parameter(torch.full((channels,), 0.1))
        self.real, self.imaginary = (nn.Linear(channels, channels, bias=False) for _ in range(2))
        self.perceptron = nn.Sequential(
            nn.Linear(3 * channels, channels), nn.ReLU(), nn.Linear(channels, channels)
        )

    def forward(self, x: Tensor, surface: Surface) -> Tensor:
        spectrum = surface.basis.mT @ (surface.mass[:, None] * x)
        decay = torch.exp(-surface.values[:, None] * self.time.clamp_min(1e-8))
        h = surface.basis @ (decay * spectrum)
        a, b = surface.gradient_x @ h, surface.gradient_y @ h
        rotated = a * (self.real(a) - self.imaginary(b)) + b * (self.real(b) + self.imaginary(a))
        found: Tensor = x + self.perceptron(torch.cat([x, h, rotated.tanh()], 1))
        return found


class Surface:
    """Operators of a triangle mesh with six edges per vertex; their values do not change times."""

    def __init__(self, faces: Tensor, spectrum: int = 128) -> None:
        count = int(faces.max()) + 1
        pairs = torch.cat([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
        both = torch.cat([pairs, pairs.flip(1), torch.arange(count)[:, None].expand(-1, 2)])
        index = torch.unique(both, dim=0).mT
        generator = torch.Generator().manual_seed(0)

        def sparse() -> Tensor:
            numbers = torch.randn(index.shape[1], generator=generator) / 7
            return torch.sparse_coo_tensor(index, numbers, (count, count)).to_sparse_csr()

        self.gradient_x, self.gradient_y = sparse(), sparse()
        self.basis = torch.randn(count, spectrum, generator=generator) / count**0.5
        self.values, self.mass = torch.linspace(0, 100, spectrum), torch.full((count,), 1 / count)


class MeshCNNConv(nn.Module):
    """Hanocka et al. 2019: an edge and symmetric functions of the four edges beside it."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, (1, 5))

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        a, b, c, d = x[beside].unbind(1)
        seen = torch.stack([x, (a - c).abs(), a + c, (b - d).abs(), b + d], -1)
        found: Tensor = self.conv(seen.mT.permute(2, 0, 1)[None])[0, :, :, 0].mT
        return found


def edges_beside(faces: Tensor) -> Tensor:
    """The four edges (edges, 4) in the two faces of each edge of a closed mesh."""
    corners = torch.stack([faces, faces.roll(-1, 1)], -1).sort(-1).values
    _, number = torch.unique(corners.view(-1, 2), dim=0, return_inverse=True)
    others = number.view(-1, 3)
    others = torch.stack([others.roll(-1, 1), others.roll(-2, 1)], -1).view(-1, 2)
    order = number.argsort(stable=True)
    return others[order].view(-1, 4)
