"""Functions of point clouds and matrices at any scale, offset, dtype and degeneracy."""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import torch
from torch import Tensor

from equigeo import graphs, groups, mds, points
from equigeo.groups.polar import spd_exp, spd_log
from tests.fuzz.case import Case

REFUSALS = (ValueError,)
EPS = {torch.float32: 2e-7, torch.float64: 4e-16}
EXTREME = {torch.float32: 12.0, torch.float64: 140.0}  # decimal exponents of scales
FAR = {torch.float32: 4.0, torch.float64: 9.0}  # and of offsets, in units of the cloud


def lengths(x: Tensor) -> Tensor:
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


class Cloud:
    """Points that are stored in some dtype, and the same ones in float64 at the scale of one."""

    def __init__(self, random: Random) -> None:
        self.dtype = random.choice([torch.float32, torch.float64])
        self.generator = torch.Generator().manual_seed(random.randrange(2**40))
        self.kind = random.choice(list(KINDS))
        size = random.randint(2, 30)
        scale = 10 ** random.uniform(-EXTREME[self.dtype], EXTREME[self.dtype])
        offset = random.choice([0.0, 10 ** random.uniform(0, FAR[self.dtype])])
        shape = KINDS[self.kind](size, self.generator)
        turn = torch.linalg.qr(self.normal(3, 3)).Q
        self.x = ((shape @ turn + offset * self.normal(3)) * scale).to(self.dtype)
        self.exact = self.x.double() / scale
        self.exact = self.exact - self.exact.mean(0)
        self.scale = scale
        self.extent = float(self.exact.norm(dim=1).max())
        # what rounding the coordinates may move, in units of the cloud
        self.rounding = 8 * EPS[self.dtype] * (self.extent + offset)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator)


def box(size: int, generator: torch.Generator) -> Tensor:
    return torch.cartesian_prod(*[torch.tensor([-s, s]).double() for s in (3.0, 2.0, 1.0)])


def generic(size: int, generator: torch.Generator) -> Tensor:
    return torch.randn(size, 3, dtype=torch.float64, generator=generator)


KINDS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "generic": generic,
    "planar": lambda n, g: generic(n, g) * torch.tensor([1.0, 1.0, 0.0]),
    "collinear": lambda n, g: generic(n, g) * torch.tensor([1.0, 0.0, 0.0]),
    "box": box,
    "twice": lambda n, g: generic(n, g).repeat(2, 1),
}


def nearest(cloud: Cloud, random: Random) -> None:
    """The nearest are as near as those of plain loops, padding and NaN in it notwithstanding."""
    count = random.randint(1, len(cloud.x))
    x, mask = cloud.x[None], None
    if random.random() < 0.5:
        x = torch.cat([x, torch.full((1, 3, 3), random.choice([0.0, math.nan, math.inf]))], 1)
        x = x.to(cloud.dtype)
        mask = torch.arange(x.shape[1])[None] < len(cloud.x)
    found = points.nearest_neighbors(x, count, mask)[0, : len(cloud.x)]
    d = lengths(cloud.exact)
    want = d.sort(1).values[:, :count]
    assert float((d.gather(1, found) - want).abs().max()) <= cloud.rounding


def inside(cloud: Cloud, random: Random) -> None:
    """Exactly those within the radius, but for rounding at its end."""
    radius = cloud.extent * random.uniform(0.1, 2.0)
    indices, within = points.radius_neighbors(cloud.x[None], radius * cloud.scale)
    d = lengths(cloud.exact)
    found = torch.zeros_like(d, dtype=torch.bool).scatter(1, indices[0], within[0])
    close = (d - radius).abs() <= cloud.rounding + 8 * EPS[cloud.dtype] * radius
    assert torch.equal(found | close, (d <= radius) | close)


def farthest(cloud: Cloud, random: Random) -> None:
    """Each is as far from those before as any other."""
    chosen = points.farthest_point_sampling(cloud.x[None], len(cloud.x))[0]
    for n in range(1, len(chosen)):
        reach = torch.cdist(cloud.exact, cloud.exact[chosen[:n]]).amin(1)
        assert float(reach.max() - reach[chosen[n]]) <= cloud.rounding


def edges(cloud: Cloud, random: Random) -> None:
    """Sources are the nearest of their targets."""
    k = random.randint(1, len(cloud.x) - 1)
    source, target = graphs.knn_graph(cloud.x, k)
    d = lengths(cloud.exact)
    others = d.clone().fill_diagonal_(math.inf).sort(1).values[:, :k]
    found = d[target, source].view(len(cloud.x), k).sort(1).values
    assert float((found - others).abs().max()) <= cloud.rounding


def embedding(cloud: Cloud, random: Random) -> None:
    """Coordinates are finite and have the distances of the cloud."""
    options = mds.EmbedOptions(fallback="ignore")
    y = mds.embed(cloud.x, sign=random.choice(["skew", "index"]), options=options).y.double()
    got, want = (lengths(z) for z in (y / cloud.scale, cloud.exact))
    assert float((got - want).abs().max()) <= 30 * cloud.rounding


def distances(cloud: Cloud, random: Random) -> None:
    """Distances of a Euclidean space come back."""
    d = lengths(cloud.exact)
    scale = 10 ** random.uniform(-250, 250)
    y = mds.distance_embed(d * scale, 3).y / scale
    assert float((lengths(y) - d).abs().max()) <= 1e-6 * cloud.extent


def averages(cloud: Cloud, random: Random) -> None:
    """Averages over exact frames do not depend on the pose, and boxes have eight frames."""
    turn = torch.linalg.qr(cloud.normal(3, 3)).Q.to(cloud.dtype)
    found = [mds.frames(x) for x in (cloud.x, cloud.x @ turn.T)]
    if cloud.kind != "box" or not all(frame.exact.all() for frame in found):
        return
    values = [mds.frame_average(lambda y: polynomial(y / cloud.scale), frame) for frame in found]
    assert float((values[0] - values[1]).abs().max()) <= 100 * cloud.extent * cloud.rounding


def polynomial(y: Tensor) -> Tensor:
    return y[..., 0, 0] * y[..., 0, 1] + y[..., 0, 0] ** 2


def polar(cloud: Cloud, random: Random) -> None:
    """The factors are what they are said to be."""
    g = cloud.normal(3, 3).to(cloud.dtype)
    g = g * g.det().sign()
    p, r = groups.polar(g * cloud.scale)
    eye = torch.eye(3, dtype=cloud.dtype)
    slack = 100 * EPS[cloud.dtype] * float(torch.linalg.cond(g.double()))
    assert float((r @ r.T - eye).abs().max()) <= slack
    assert float((p / cloud.scale @ r - g).abs().max()) <= slack * float(g.abs().max())


def logarithm(cloud: Cloud, random: Random) -> None:
    """Roots and logarithms of positive definite matrices are undone by squares and exponentials."""
    n = random.choice([2, 3])
    a = cloud.normal(n, n)
    p = ((a @ a.T + torch.eye(n)) * cloud.scale).to(cloud.dtype)
    slack = 1000 * EPS[cloud.dtype]
    root = groups.spd_sqrt(p)
    assert float((root @ root / p.abs().max() - p / p.abs().max()).abs().max()) <= slack
    log = spd_log(p)
    again = spd_exp(log - math.log(cloud.scale) * torch.eye(n, dtype=cloud.dtype))
    slack *= 1 + float(log.abs().max())
    assert float((again - p / cloud.scale).abs().max()) <= slack * float(again.abs().max())


LAWS = [nearest, inside, farthest, edges, embedding, distances, averages, polar, logarithm]
SEARCHES: list[Callable[[Tensor], object]] = [
    lambda x: points.nearest_neighbors(x[None], 1),
    lambda x: points.radius_neighbors(x[None], 1.0),
    lambda x: points.farthest_point_sampling(x[None], 1),
    lambda x: graphs.knn_graph(x, 1),
    mds.embed,
    mds.frames,
    lambda x: mds.distance_embed(torch.cdist(x, x)),
]


def cases(seed: int) -> Iterator[Case]:
    """Without an end; in every tenth case a coordinate is not finite."""
    for turn in itertools.count():
        name = f"{seed} {turn}"
        if turn % 10 == 9:
            place = Random(name).randrange(len(SEARCHES))
            call = partial(search_not_finite, name, SEARCHES[place])
            yield Case(f"not finite {place}", call, REFUSALS, must_refuse=True)
        else:
            law = LAWS[Random(name).randrange(len(LAWS))]
            yield Case(f"{law.__name__} {name}", partial(check_law, name, law), ())


def check_law(name: str, law: Callable[[Cloud, Random], None]) -> None:
    random = Random(name)
    law(Cloud(random), random)


def search_not_finite(name: str, search: Callable[[Tensor], object]) -> None:
    random = Random(name)
    x = Cloud(random).x.clone()
    bad = random.choice([math.nan, math.inf, -math.inf])
    x[random.randrange(len(x)), random.randrange(3)] = bad
    search(x)
