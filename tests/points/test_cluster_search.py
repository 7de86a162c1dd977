import itertools
import sys
from types import ModuleType

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from equigeo.points import nearest_neighbors, neighbor_backend, neighbors, radius_neighbors
from equigeo.points import search as cluster_search
from equigeo.points.search import torch_cluster
from tests.draws import generator
from tests.points.conftest import INSTALLED, StandIn
from tests.tier import tier
from tests.wrong_inputs import refused


def cloud_set(name, dtype):
    """Clouds (4, P, dim) of one kind."""
    g = generator()
    if name == "grid":  # nothing but ties, and squares without rounding
        grid = torch.cartesian_prod(*[torch.arange(5.0)] * 3).to(dtype)
        return torch.stack([grid[torch.randperm(125, generator=g)] for _ in range(4)]) - 2
    if name == "duplicates":
        x = torch.rand(4, 12, 3, generator=g, dtype=dtype)
        return x[:, torch.randint(12, (60,), generator=g)]
    if name == "one point":
        return torch.rand(4, 1, 3, generator=g, dtype=dtype).expand(4, 20, 3)
    if name == "single":
        return torch.rand(4, 1, 3, generator=g, dtype=dtype)
    if name == "far away":  # cancellation leaves few digits of the expanded squares
        return torch.rand(4, 100, 3, generator=g, dtype=dtype) + 100
    if name == "outliers":
        x = torch.rand(4, 100, 3, generator=g, dtype=dtype)
        return x * torch.where(torch.rand(4, 100, 1, generator=g) < 0.05, 1e3, 1.0)
    if name == "huge":  # squares of distances overflow in float32
        return torch.randn(4, 50, 3, generator=g, dtype=dtype) * 1e22
    dim = {"line": 1, "plane": 2, "space": 3, "features": 5}[name]
    return torch.randn(4, 150, dim, generator=g, dtype=dtype)


CLOUDS = pytest.mark.parametrize(
    "name",
    [
        *("grid", "duplicates", "one point", "single", "far away", "outliers", "huge"),
        *("line", "plane", "space", "features"),
    ],
)


def settings(*counts):
    """Counts, dtypes and whether there is a mask: all pairs of them, and in full all together."""
    every = [*itertools.product(counts, (torch.float32, torch.float64), (False, True))]
    return tier([every[k] for k in (0, 3, 5, 6, 8, 11)], every)


def mask_for(x, masked):
    """Clouds of all sizes: all points, some, one."""
    if not masked:
        return None
    kept = torch.rand(x.shape[:2], generator=generator(1)) < torch.tensor([[2], [0.5], [0.1], [0]])
    kept[:, x.shape[1] // 2] = True
    return kept


@CLOUDS
def test_the_same_points_are_the_nearest(both, name):
    for count, dtype, masked in settings(1, 8, 1000):
        x = cloud_set(name, dtype)
        some = torch.randn(4, 9, x.shape[2], generator=generator(2), dtype=dtype)
        for centers in (None, some):
            own, through = both(nearest_neighbors, x, count, mask_for(x, masked), centers=centers)
            assert torch.equal(own, through), (count, dtype, masked)


def members(indices, inside, size):
    """Which points are inside, (..., Q, P), whatever the order."""
    flags = torch.zeros(*indices.shape[:-1], size)
    return flags.scatter_add(-1, indices, inside.float())


@CLOUDS
def test_the_same_points_are_inside(both, name):
    counts = (None, 1, 8, 1000)
    for radius, dtype, masked in settings(0.25, 1.0, 2.0):
        x = cloud_set(name, dtype)
        mask, size = mask_for(x, masked), x.shape[1]
        for count in counts:
            own, through = both(radius_neighbors, x, radius, count, mask)
            assert own[0].shape == through[0].shape
            assert torch.equal(members(*own, size), members(*through, size)), (radius, count)


def test_batch_axes_of_centers_and_points_are_broadcast(both):
    x = torch.randn(2, 1, 60, 3, generator=generator(), dtype=torch.float64)
    frames = torch.randn(5, 3, 3, generator=generator(1), dtype=torch.float64)
    mask = (torch.rand(2, 1, 60, generator=generator(2)) < 0.7).requires_grad_(False)
    for count in (None, 4):
        own, through = both(
            radius_neighbors, x @ frames, 0.8, count, mask, centers=x[:, :, :7] @ frames
        )
        assert own[0].shape == through[0].shape == (2, 5, 7, count or 60)
        assert torch.equal(members(*own, 60), members(*through, 60))


def test_no_points_and_no_centers_have_no_neighbors(both):
    x = torch.randn(3, 20, 3, generator=generator())
    mask = torch.tensor([True, False, True])[:, None].expand(3, 20)
    refused("every cloud must have a point", nearest_neighbors, x, 4, mask)
    own, through = both(radius_neighbors, x, 1.0, 4, mask)
    assert torch.equal(own[1], through[1])
    assert not own[1][1].any()
    for found in both(nearest_neighbors, x, 4, centers=x[:, :0]):
        assert found.shape == (3, 0, 4)
    for indices, inside in both(radius_neighbors, x, 1.0, 4, centers=x[:, :0]):
        assert indices.shape == inside.shape == (3, 0, 4)


def test_torch_cluster_is_asked_for_clouds_that_it_can_search(monkeypatch):
    asked, cluster = [], StandIn()
    for each in ("knn", "radius"):
        call = getattr(cluster, each)
        spied = lambda *a, _call=call, _name=each, **k: asked.append(_name) or _call(*a, **k)  # noqa: E731
        setattr(cluster, each, spied)
    monkeypatch.setattr(cluster_search, "torch_cluster", lambda: cluster)
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "torch-cluster")
    x = torch.randn(2, 30, 3, generator=generator())
    nearest_neighbors(x, 4)
    radius_neighbors(x, 1.0)
    assert asked == ["knn", "radius"]
    monkeypatch.setattr(cluster_search, "torch_cluster", lambda: pytest.fail("was asked"))
    for x in (
        *(torch.zeros(0, 5, 3), torch.zeros(2, 0, 3), torch.zeros(2, 5, 0)),
        *(torch.rand(2, 5, 4), torch.rand(2, 5, 3, device="meta")),
    ):
        assert nearest_neighbors(x, 2).shape == (*x.shape[:2], min(2, x.shape[1]))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_transforms_and_traces_search_without_trees(both):
    x = torch.randn(2, 1, 2 * cluster_search._LEAST_FOR_TREE, 3, generator=generator())

    def nearest(cloud):
        return nearest_neighbors(cloud, 4), radius_neighbors(cloud, 0.5, 4)[0].sort().values

    def loss(cloud):
        return (cloud * nearest(cloud)[0][..., 1:]).sum()

    class Module(torch.nn.Module):
        def forward(self, cloud):
            return nearest(cloud)

    for want in both(nearest, x[1]):
        found = {
            "vmap": both(lambda: [y[1] for y in torch.vmap(nearest)(x)]),
            "trace": both(lambda: torch.jit.trace(Module(), x[0], check_trace=False)(x[1])),
            "graph": both(lambda: make_fx(nearest)(x[0])(x[1])),
        }
        for name, pair in found.items():
            assert all(torch.equal(*y) for y in zip(pair[0], want, strict=True)), name
            assert all(torch.equal(*y) for y in zip(pair[1], want, strict=True)), name
    for found in both(torch.func.grad(loss), x[1]):
        assert torch.equal(found, want[0][..., 1:].to(x))


def test_squares_of_small_distances_do_not_vanish_beside_an_outlier(both):
    x = torch.randn(1, 40, 3, generator=generator()) * 1e-24
    x[0, 0] = 1e-10
    own, through = both(radius_neighbors, x, 1e-24, 40)
    assert 0 < own[1].sum() < own[1].numel()
    assert torch.equal(members(*own, 40), members(*through, 40))


def test_a_large_share_of_the_points_is_searched_without_trees(own_searches, monkeypatch):
    asked, search = [], cluster_search._scipy_nearest
    spied = lambda *args: asked.append(args[2]) or search(*args)  # noqa: E731
    monkeypatch.setattr(cluster_search, "_scipy_nearest", spied)
    x = torch.randn(1, cluster_search._LEAST_FOR_TREE, 3, generator=generator())
    most = x.shape[1] // cluster_search._LEAST_PER_NEIGHBOR
    for count in (most, most + 1):
        nearest_neighbors(x, count)
        radius_neighbors(x, 1.0, count)
    assert asked == [most + 1] * 2  # one more tells ties


def test_distances_whose_squares_underflow_are_ties(both):
    x = torch.rand(1, 2 * cluster_search._LEAST_FOR_TREE, 3, generator=generator())
    x[0, :6] = 0
    x[0, :6, 0] = 1e-26 * torch.tensor([3.0, 6, 1, 5, 2, 4])  # cdist returns zeros in float32
    own, through = both(nearest_neighbors, x, 4)
    assert torch.equal(own, through)
    for found in both(radius_neighbors, x, 1e-20, 4):
        assert torch.equal(found[0][0, :6].sort().values, own[0, :6].sort().values)


def test_doubtful_rows_alone_are_searched_again(both, monkeypatch):
    x = torch.randn(1, 100, 3, generator=generator(), dtype=torch.float64)
    x[0, :3] = torch.tensor([[9.0, 0, 0], [9, 1, 0], [9, -1, 0]])
    asked = []
    settle = cluster_search.settle

    def spy(indices, doubtful, search):
        asked.append(doubtful.nonzero()[:, 1].tolist())
        return settle(indices, doubtful, search)

    monkeypatch.setattr(neighbors, "settle", spy)
    own, through = both(nearest_neighbors, x, 3)
    assert torch.equal(own, through)
    assert asked == [[0]]


def test_gradients_do_not_pass_and_inputs_stay(both):
    x = torch.randn(2, 30, 3, generator=generator()).requires_grad_()
    before = x.detach().clone()
    own, through = both(nearest_neighbors, x, 5)
    assert torch.equal(own, through)
    assert not through.requires_grad
    assert torch.equal(x, before)


@pytest.fixture(autouse=True)
def fresh():
    torch_cluster.cache_clear()
    yield
    torch_cluster.cache_clear()


@pytest.mark.parametrize("choice", ["auto", "torch-cluster"])
def test_torch_cluster_is_named_where_it_is_installed(monkeypatch, choice):
    if not INSTALLED:
        monkeypatch.setitem(sys.modules, "torch_cluster", ModuleType("torch_cluster"))
        monkeypatch.setattr(cluster_search, "version", lambda name: "1.6.3")
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", choice)
    assert neighbor_backend().startswith("torch-cluster 1.")


def test_the_variable_is_read_once_and_other_values_are_refused(monkeypatch):
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "own")
    assert neighbor_backend() == "equigeo"
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "faiss")
    assert neighbor_backend() == "equigeo"
    torch_cluster.cache_clear()
    refused(r"must be one of auto, torch-cluster, own, got 'faiss'", neighbor_backend)


def missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_own_searches_serve_where_nothing_is_installed_or_wanted(monkeypatch):
    monkeypatch.setattr(cluster_search, "import_module", missing)
    monkeypatch.delenv("EQUIGEO_NEIGHBORS", raising=False)
    assert neighbor_backend() == "equigeo"
    torch_cluster.cache_clear()
    monkeypatch.setenv("EQUIGEO_NEIGHBORS", "torch-cluster")
    refused("pip install --no-build-isolation torch-cluster", neighbor_backend, error=ImportError)


@pytest.mark.parametrize("error", [OSError("undefined symbol"), ImportError("no _fps_cpu")])
def test_what_is_broken_is_an_error_even_if_it_is_not_asked_for(monkeypatch, error):
    def broken(name):
        raise error

    monkeypatch.setattr(cluster_search, "import_module", broken)
    monkeypatch.delenv("EQUIGEO_NEIGHBORS", raising=False)
    refused(r"cannot be loaded .* EQUIGEO_NEIGHBORS=own", neighbor_backend, error=ImportError)
