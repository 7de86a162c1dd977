"""Clouds alone, as rows, padded by anything, or with weights: one result in every form."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from equigeo import affine, graphs, mds, points
from equigeo.groups import SO, haar_rotations
from equigeo.mds.frames import KINDS
from tests.mds.clouds import generator

COUNTS = (60, 50, 5)
QUIET = mds.EmbedOptions(fallback="ignore")
DTYPES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.1}  # of pooled features
RAGGED = ("mask", "ptr", "batch", "weights")
SAMPLES = haar_rotations(3, 3, generator=generator())
SPHERE = affine.PointNeighborhood(1.5, 12)


class Form(NamedTuple):
    """Clouds in one of the ways to write them down, and which rows of them are points."""

    x: Tensor
    clouds: dict[str, Tensor]
    there: Tensor

    def __call__(self, fn: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return fn(self.x, *arguments, **self.clouds, **keywords)

    def split(self, values: Tensor) -> list[Tensor]:
        """Values of points, or of clouds, by cloud."""
        if values.shape[: self.there.ndim] != self.there.shape:
            return list(values)
        if self.there.ndim == 2:
            return [v[m] for v, m in zip(values, self.there, strict=True)]
        return list(values.tensor_split(self.starts[1:]))

    @property
    def starts(self) -> list[int]:
        """Where clouds begin that are one after another."""
        return [0, 60, 110] if self.clouds else [0]

    def numbered(self, indices: Tensor) -> list[Tensor]:
        """Positions (B, ...) in padded clouds as positions among their points."""
        numbers = self.there.cumsum(1) - 1
        return [own[at] for own, at in zip(numbers, indices, strict=True)]


def forms(names: Sequence[str], dtype: torch.dtype) -> Iterator[list[Form]]:
    """Yield clouds one by one, and then all of them in every form that has these arguments."""
    clouds = [torch.randn(n, 3, generator=generator(n), dtype=torch.float64) for n in COUNTS]
    clouds = [x.to(dtype) for x in clouds]
    if not names:
        clouds = [x[:50] for x in clouds[:2]]
    padded = "mask" in names or not names
    alone = [x[None] if padded else x for x in clouds]
    yield [Form(x, {}, torch.ones(x.shape[:-1], dtype=torch.bool)) for x in alone]
    if not names:
        together = torch.stack(clouds)
        yield [Form(together, {}, torch.ones(together.shape[:-1], dtype=torch.bool))]
    rows, counts = torch.cat(clouds), torch.tensor([len(x) for x in clouds])
    all_rows = torch.ones(len(rows), dtype=torch.bool)
    if "ptr" in names:
        ptr = torch.cat([counts[:1] * 0, counts.cumsum(0)])
        yield [Form(rows, {"ptr": ptr}, all_rows)]
    if "batch" in names:
        yield [Form(rows, {"batch": torch.arange(len(counts)).repeat_interleave(counts)}, all_rows)]
    for length, content in ((60, 0.0), (60, torch.nan), (75, torch.inf), (75, 1e4)):
        mask = torch.arange(length) < counts[:, None]
        if length > 60:  # padding between points
            mask = mask[:, torch.randperm(length, generator=generator())]
        x = torch.full((len(counts), length, 3), content, dtype=dtype)
        x[mask] = rows
        for name, value in (("mask", mask), ("weights", mask.to(dtype))):
            if name in names:
                yield [Form(x, {name: value}, mask)]


def spread(form: Form, indices: Tensor, inside: Tensor, at: Tensor | None) -> list[Tensor]:
    """Distances from places to their neighbors, ascending, and infinity for other points."""
    found = []
    parts = zip(form.split(form.x), form.numbered(indices), inside, form.there, strict=True)
    for own, numbers, within, there in parts:
        places, rows = (own.double(), there) if at is None else (at, slice(None))
        d = torch.cdist(places, own.double())
        joined = torch.zeros_like(d, dtype=torch.bool)
        row, column = within[rows].nonzero(as_tuple=True)
        joined[row, numbers[rows][row, column]] = True
        found.append(d.masked_fill(~joined, torch.inf).sort(1).values)
    return found


def searched(search: Callable[..., Any], *arguments: Any, at: Tensor | None = None) -> Any:
    def call(form: Form) -> list[Tensor]:
        given = {} if at is None else {"centers": at.to(form.x.dtype).expand(len(form.x), -1, -1)}
        found = form(search, *arguments, **given)
        pair = found if isinstance(found, tuple) else (found, torch.ones_like(found) > 0)
        return spread(form, *pair, None if at is None else at.to(form.x.dtype).double()[0])

    return call


def sampled(form: Form) -> list[Tensor]:
    sizes = form.there.sum(1).clamp_max(10).tolist()
    chosen = form(points.farthest_point_sampling, min(10, form.x.shape[1]))
    numbers = form.numbered(chosen)
    return [own[:size].double() for own, size in zip(numbers, sizes, strict=True)]


def edges(search: Callable[..., Any], *arguments: Any) -> Callable[[Form], list[Tensor]]:
    def call(form: Form) -> list[Tensor]:
        found = form(search, *arguments)
        pairs = found if isinstance(found, Tensor) else found.edge_index
        cloud = torch.bucketize(pairs[1], torch.tensor(form.starts), right=True) - 1
        return [(pairs[:, cloud == k] - start).double() for k, start in enumerate(form.starts)]

    return call


def padded(form: Form) -> list[Tensor]:
    if not form.clouds:
        return [form.x]
    return [y[mask] for y, mask in zip(*form(points.pad_clouds), strict=True)]


def values(fn: Callable[..., Any], pick: Callable[[Any], Tensor] = lambda y: y) -> Any:
    return lambda form: form.split(pick(form(fn)))


def layer(make: Callable[[], nn.Module], call: Callable[..., Tensor] | None = None) -> Any:
    """A module in the dtype of the clouds; ``call(module, x, **clouds)`` if not the module."""

    def run(form: Form) -> list[Tensor]:
        torch.manual_seed(0)
        module = make().eval().to(form.x.dtype)
        return form.split(form(module if call is None else partial(call, module)))

    return run


def found_near(x: Tensor, mask: Tensor | None = None) -> Tensor:
    near = affine.PointNeighborhood(1.5, 65).find(SAMPLES, x, mask=mask)
    means = (near.weight[..., None] * torch.cat([near.u, near.u.square()], -1)).sum(-2)
    return means.transpose(1, 2)


def lifted(conv: nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return conv(x.mT, x, SAMPLES, mask=mask)[0].permute(0, 3, 1, 2)


def convolved(conv: nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    features = x.mT[:, :, None].expand(-1, -1, len(SAMPLES), -1)
    return conv(features, x, SAMPLES, mask=mask)[0].permute(0, 3, 1, 2)


def told(model: nn.Module, x: Tensor, mask: Tensor | None = None, **clouds: Tensor) -> Tensor:
    """An invariant network that is told what the clouds are as well."""
    return model(x, mask, mask=mask, **clouds)


def invariant(network: nn.Module | None = None, **settings: Any) -> nn.Module:
    """By default of a network that sees points one by one."""
    per_point = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    return mds.Invariant(network or per_point, options=QUIET, **settings)


def routed(model: nn.Module, x: Tensor) -> Tensor:
    return model.encoder(model.see(x[..., :2])[0].to(x.dtype))


def classifier(**settings: Any) -> nn.Module:
    return mds.InvariantPointNet(mds.InvariantPointNetConfig(3, **settings))


SKEWED = {"network": "pointnet", "settings": {"widths": (8, 16), "hidden": (8,)}}
SMALL = {"groups": (16, 6), "neighbors": 9, "widths": ((8, 8), (8, 16)), "features": 16}
FRAMED = {"network": "pointnet++", "settings": SMALL, "kind": "frames", "upright": True}
AT = torch.randn(1, 6, 3, generator=generator(7), dtype=torch.float64)
near, within, fps = (
    points.nearest_neighbors, points.radius_neighbors, points.farthest_point_sampling
)  # fmt: skip
embed, invariants, classifiers = mds.embed, mds.Invariant.forward, mds.InvariantPointNet.forward
CASES: dict[str, tuple[Callable[..., Any], Callable[[Form], list[Tensor]]]] = {
    "points.nearest_neighbors": (near, searched(near, 8)),
    "points.nearest_neighbors of all": (near, searched(near, 200)),
    "points.nearest_neighbors of centers": (near, searched(near, 8, at=AT)),
    "points.radius_neighbors": (within, searched(within, 1.0)),
    "points.radius_neighbors, some": (within, searched(within, 1.0, 6)),
    "points.radius_neighbors of centers": (within, searched(within, torch.inf, 6, at=AT)),
    "points.farthest_point_sampling": (fps, sampled),
    "points.pad_clouds": (points.pad_clouds, padded),
    "graphs.knn_graph": (graphs.knn_graph, edges(graphs.knn_graph, 6)),
    "graphs.radius_graph": (graphs.radius_graph, edges(graphs.radius_graph, 1.0)),
    "graphs.neighbor_list": (graphs.neighbor_list, edges(graphs.neighbor_list, 1.0)),
    "graphs.VerletList.update": (
        graphs.VerletList.update, edges(lambda x, **c: graphs.VerletList(1.0).update(x, **c))
    ),
    "affine.PointNeighborhood.find": (affine.PointNeighborhood.find, values(found_near)),
    "affine.PointLiftConv": (
        affine.PointLiftConv.forward,
        layer(lambda: affine.PointLiftConv(SO(3), 3, 4, neighborhood=SPHERE, rank=5), lifted),
    ),
    "affine.PointGroupConv": (
        affine.PointGroupConv.forward,
        layer(lambda: affine.PointGroupConv(SO(3), 3, 4, neighborhood=SPHERE, rank=5), convolved),
    ),
    "affine.AffinePointNet": (
        affine.AffinePointNet.forward, layer(lambda: affine.AffinePointNet.preset("default", 4))
    ),
    "mds.embed": (embed, values(partial(embed, options=QUIET), lambda found: found.y)),
    "mds.embed by index": (
        embed, values(partial(embed, options=QUIET, sign="index"), lambda found: found.y)
    ),
    "mds.Invariant": (invariants, layer(invariant)),
    "mds.Invariant of frames": (invariants, layer(lambda: invariant(kind="frames"))),
    "mds.Invariant of a network of clouds": (
        classifiers, layer(lambda: invariant(points.PointNet(4)), told)
    ),
    "mds.Invariant.draw": (mds.Invariant.draw, layer(invariant, mds.Invariant.draw)),
    "mds.InvariantPointNet": (classifiers, layer(lambda: classifier(**SKEWED))),
    "mds.InvariantPointNet of frames": (classifiers, layer(lambda: classifier(**FRAMED))),
    "mds.InvariantPointNet.flagged": (
        mds.InvariantPointNet.flagged,
        layer(lambda: classifier(**SKEWED), lambda net, x, **c: net.flagged(x, **c).double()),
    ),
    "mds.AttentionModel": (
        mds.AttentionModel.forward, layer(lambda: mds.AttentionModel.preset("default"), routed)
    ),
    **{
        f"points.{name}": (points.PointNet.forward, layer(partial(getattr(points, name), 4)))
        for name in ("PointNet", "PointNetPlusPlus", "DGCNN", "PointTransformer")
    },
    **{
        f"mds.frames, {kind}": (
            mds.frames,
            values(partial(mds.frames, kind=kind), partial(mds.frame_average, torch.abs)),
        )
        for kind in KINDS
    },
}  # fmt: skip
# Arguments of the same names with another meaning, and methods that are called by those above.
OTHERS = (
    "*.classify",
    "affine.Point*.check_clouds",
    "affine.Point*.convolve",
    "graphs.EdgeIndex.from_csr",
    "mesh.attention_mask",
    "tensor_products.*Conv.forward",
)


def slopes(form: Form, results: list[Tensor]) -> list[Tensor]:
    """Gradients of a function of the results at the points, by cloud; zero at padding."""
    if not form.x.requires_grad or not any(part.requires_grad for part in results):
        return []
    (slope,) = torch.autograd.grad(sum(part.square().sum() for part in results), form.x)
    assert not slope[~form.there].any()
    return form.split(slope)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_ragged_clouds_agrees(name, dtype):
    takes, call = CASES[name]
    names = [key for key in inspect.signature(takes).parameters if key in RAGGED]
    found = []
    for several in forms(names, dtype):
        parts, moved = [], []
        for form in several:
            form.x.requires_grad_(dtype == torch.float64)
            results = call(form)
            moved += slopes(form, results)
            parts += [part.detach() for part in results]
        found.append(parts + moved)
    want, *others = found
    assert others
    for got in others:
        for one, other in zip(got, want, strict=True):
            finite = other[other.isfinite()]
            size = float(finite.abs().max()) if finite.numel() else 1.0
            close = {"rtol": 0.0, "atol": DTYPES[dtype] * max(1.0, size)}
            torch.testing.assert_close(one, other, **close)


def ragged_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public functions and methods with an argument that tells clouds apart."""
    for package in ("points", "graphs", "affine", "mds", "mesh", "nn", "tensor_products"):
        module = importlib.import_module(f"equigeo.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            members = (
                inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
            )
            named = [(name, value)] if inspect.isfunction(value) else []
            named += [(f"{name}.{key}", fn) for key, fn in members if not key.startswith("_")]
            for label, fn in named:
                if inspect.isfunction(fn) and any(
                    "Tensor" in str(given.annotation) and key in RAGGED
                    for key, given in inspect.signature(fn).parameters.items()
                ):
                    yield f"{package}.{label}", fn


def test_every_public_function_of_ragged_clouds_is_compared():
    compared = {takes for takes, _ in CASES.values()}
    missing = {
        label
        for label, fn in ragged_callables()
        if fn not in compared and not any(fnmatchcase(label, pattern) for pattern in OTHERS)
    }
    assert missing == set()
