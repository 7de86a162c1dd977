"""The attention model: published equations, tours that rigid motions leave alone, its flags."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from torch import nn

from equigeo.mds import AttentionModel, AttentionModelConfig, Tours, tour_lengths
from equigeo.mds.attention_model import AttentionEncoder, PointerDecoder
from tests.mds.clouds import generator, motions, polygon
from tests.wrong_inputs import refused


def cities(number=50, size=12, seed=0):
    return torch.rand(number, size, 2, generator=generator(seed), dtype=torch.float64)


def make(inputs="mds", **settings):
    """A small network that is not fresh: statistics of batch norm are not those of its start."""
    torch.manual_seed(0)
    config = {"channels": 16, "heads": 2, "layers": 2, "hidden": 32, "inputs": inputs}
    model = AttentionModel(AttentionModelConfig(**(config | settings))).double()
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm1d):
            nn.init.uniform_(norm.running_mean, -0.2, 0.2)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
    with torch.no_grad():
        model.decoder.project.weight.mul_(3.0)  # decisions that are less close
    return model.eval()


@pytest.fixture(params=["mds", "plain"])
def model(request):
    return make(request.param)


def published_log_prob(decoder, h, tour):
    """Log-probability of one tour of one instance, step by step as it is published."""
    channels, heads = h.shape[1], decoder.heads
    last, first, key, value, score = decoder.project.weight.chunk(5)
    mean, total = decoder.mean.weight @ h.mean(0), 0.0
    visited = [int(tour[0])]
    for city in tour[1:].tolist():
        query = mean + first @ h[visited[0]] + last @ h[visited[-1]]
        left = [j for j in range(len(h)) if j not in visited]
        parts = query.chunk(heads), (h[left] @ key.T).chunk(heads, 1), h[left] @ value.T
        seen = [
            (k @ q / math.sqrt(channels // heads)).softmax(0) @ v
            for q, k, v in zip(*parts[:2], parts[2].chunk(heads, 1), strict=True)
        ]
        scores = (h[left] @ score.T) @ torch.cat(seen) / math.sqrt(channels)
        total = total + (decoder.clip * scores.tanh()).log_softmax(0)[left.index(city)]
        visited.append(city)
    return total


@pytest.mark.parametrize("sample", [False, True])
def test_tables_give_the_published_probabilities(sample):
    torch.manual_seed(0)
    decoder, h = PointerDecoder(16, 4).double(), torch.randn(3, 7, 16, dtype=torch.float64)
    starts = torch.tensor([[0, 6], [3, 3], [2, 5]])
    tours, log_prob = decoder(h, starts, sample)
    assert torch.equal(tours[:, :, 0], starts)
    want = [[published_log_prob(decoder, a, t) for t in b] for a, b in zip(h, tours, strict=True)]
    torch.testing.assert_close(log_prob, torch.stack([torch.stack(w) for w in want]))


def test_samples_come_as_often_as_their_probability_says():
    torch.manual_seed(0)
    decoder, number = PointerDecoder(8, 2).double(), 20_000
    h = torch.randn(1, 4, 8, dtype=torch.float64)
    with torch.no_grad():
        tours, log_prob = decoder(h, torch.zeros(1, number, dtype=torch.long), sample=True)
    orders, inverse, counts = tours[0].unique(dim=0, return_inverse=True, return_counts=True)
    chances = torch.zeros(len(orders), dtype=torch.float64)
    chances[inverse] = log_prob[0].exp()
    assert len(orders) == 6
    assert chances.sum().item() == pytest.approx(1)
    deviation = (chances * (1 - chances) / number).sqrt()
    assert ((counts / number - chances).abs() < 5 * deviation).all()


def test_greedy_takes_the_likeliest_city_and_tours_are_complete(model):
    assert model.solve(cities(2, 30)).order.shape == (2, 1, 30)  # any number of cities
    every_start = model.solve(cities(), every_start=True)
    assert (every_start.length <= model.solve(cities()).length + 1e-12).all()
    found = model(cities())
    assert torch.equal(found.order.sort(-1).values, torch.arange(12).expand(50, 1, 12))
    assert torch.equal(found.length, tour_lengths(cities(), found.order))
    drawn = model(cities(), found.order[:, :, 0].expand(-1, 30), sample=True)
    same = (drawn.order == found.order).all(-1)
    assert not same.all()
    torch.testing.assert_close(drawn.log_prob[same], found.log_prob.expand(-1, 30)[same])
    centred = cities() - cities().mean(1, keepdim=True)
    assert torch.equal(found.order[:, 0, 0], centred.square().sum(-1).argmax(1))


@pytest.mark.parametrize("choices", [{}, {"augment": True}, {"every_start": True}])
def test_oracle_26_rigid_motions_and_scalings_leave_tours_alone(choices):
    model, x = make(), cities(200)
    want = model.solve(x, **choices)
    for i, g in enumerate(motions(4, 2)):
        moved = model.solve(10.0 ** (i - 1) * x @ g.mT + 10 * i, **choices)
        assert torch.equal(moved.edges(), want.edges())
        torch.testing.assert_close(moved.length, 10.0 ** (i - 1) * want.length)
    assert not want.flagged.any()


def test_single_precision_is_invariant_and_plain_networks_are_not():
    single, plain, x = make().float(), make("plain"), cities(200)
    (g,) = motions(1, 2)
    assert torch.equal(single.solve(x @ g.mT - 3).edges(), single.solve(x).edges())
    for moved in (x.flip(-1), 1 - x, 3 * x, x + 2):
        same = (plain.solve(moved).edges() == plain.solve(x).edges()).all(-1)
        assert same.double().mean() < 0.7


def test_tours_follow_permutations(model):
    x, order = cities(), torch.randperm(12, generator=generator())
    for choices in ({}, {"every_start": True, "augment": True}):
        found = model.solve(x[:, order], **choices)
        renamed = Tours(order[found.order], found.length, found.log_prob, found.flagged)
        assert torch.equal(renamed.edges(), model.solve(x, **choices).edges())


def test_frames_help_after_the_embedding_and_do_nothing_before():
    model, x = make(), cities()
    after = model.frames(model.see(x)[0])
    assert (torch.pdist(after.flatten(1)) > 1).all()
    before = torch.stack([model.see(y)[0] for y in model.frames(x - 0.5)])
    torch.testing.assert_close(before, before[:1].expand_as(before))
    greedy, best = model.solve(x), model.solve(x, augment=True)
    assert (best.length <= greedy.length).all()
    assert (best.length < greedy.length - 1e-6).any()
    collapsed = torch.stack([model.solve(y).length for y in model.frames(x - 0.5)]).amin(0)
    torch.testing.assert_close(collapsed, greedy.length)


def test_symmetric_instances_are_flagged():
    line = torch.linspace(-1, 1, 8, dtype=torch.float64)
    x = torch.stack([cities(1, 8)[0], polygon(8), torch.stack([line, 0 * line], -1)])
    for choices in ({}, {"every_start": True, "augment": True}):
        assert make().solve(x, **choices).flagged.tolist() == [False, True, True]
    assert not make("plain").solve(x).flagged.any()


def test_coinciding_and_few_cities_have_tours():
    model = make()
    for size in (1, 2, 3):
        found = model.solve(torch.zeros(2, size, 2, dtype=torch.float64), every_start=True)
        assert found.order.sort(-1).values.tolist() == [[list(range(size))]] * 2
        assert found.length.tolist() == [[0.0]] * 2
    points = torch.tensor([[[0.0, 0], [1, 0], [1, 0], [0, 1]]], requires_grad=True)
    tour_lengths(points, torch.tensor([[[0, 1, 2, 3]]])).sum().backward()
    half = 0.5**0.5
    want = torch.tensor([[[-1.0, -1], [1, 0], [half, -half], [-half, 1 + half]]])
    torch.testing.assert_close(points.grad, want)


def test_edges_and_the_best_tour():
    order = torch.tensor([[[0, 1, 2, 3], [2, 1, 0, 3], [0, 2, 1, 3]]])
    length = torch.tensor([[2.0, 1.0, 3.0]])
    tours = Tours(order, length, torch.zeros(1, 3), torch.tensor([True]))
    first, second, third = tours.edges()[0]
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert tours.best().order.tolist() == [[[2, 1, 0, 3]]]
    assert tours.best().length.tolist() == [[1.0]]


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_settings_rebuild_the_network(preset):
    model = AttentionModel.preset(preset, "plain").eval()
    again = AttentionModel.from_config(model.config.to_dict()).eval()
    again.load_state_dict(model.state_dict())
    changed = AttentionModel.preset(preset, "plain", heads=4).config
    assert changed == dataclasses.replace(model.config, heads=4)
    x, starts = cities().float(), torch.zeros(50, 1, dtype=torch.int64)
    for given in (x, x.numpy()):
        assert torch.equal(again.solve(given).order, model.solve(x).order)
    assert torch.equal(model(x.numpy(), starts.numpy()).order, model(x, starts).order)


def test_bad_input_is_named():
    model, cities_shape = make(), r"cities must be \(B, cities, 2\)"
    nan = torch.full((1, 5, 2), torch.nan)
    for message, call, *arguments in (
        (cities_shape, model.solve, torch.zeros(5, 2)),
        (cities_shape, model.solve, torch.zeros(1, 5, 3)),
        (cities_shape, model.solve, torch.zeros(1, 0, 2)),
        ("finite", model.solve, nan),
        ("finite", make("plain").solve, nan),
        ("inputs must be mds or plain", AttentionModelConfig, "raw"),
        ("preset must be default or paper", AttentionModel.preset, "large"),
        (r"unknown fields \['colour'\]", AttentionModel.from_config, {"colour": 1}),
        ("heads divide channels", AttentionEncoder, 2, 10, 3, 1, 8),
        ("heads divide channels", PointerDecoder, 10, 3),
        ("must be positive", partial(PointerDecoder, clip=0), 10, 2),
    ):
        refused(message, call, *arguments)
    with pytest.raises(TypeError, match="cities must be floating"):
        model.solve(torch.zeros(1, 5, 2, dtype=torch.long))


def test_log_probabilities_have_two_orders_of_gradients_by_weights(model):
    places = cities(3)
    weights = list(model.parameters())

    def slopes():
        return torch.autograd.grad(model(places).log_prob.sum(), weights, create_graph=True)

    along = [torch.randn(w.shape, generator=generator(1), dtype=w.dtype) for w in weights]
    first = sum((s * a).sum() for s, a in zip(slopes(), along, strict=True))
    second = torch.autograd.grad(first, weights, allow_unused=True)
    found = sum((s * a).sum() for s, a in zip(second, along, strict=True) if s is not None).item()
    h, ends = 1e-5, []
    for sign in (1, -2):  # forth, and back twice as far
        with torch.no_grad():
            for w, a in zip(weights, along, strict=True):
                w += sign * h * a
        ends.append(sum((s * a).sum() for s, a in zip(slopes(), along, strict=True)).item())
    # the third derivative times h^2 / 6, and rounding of 1e-13 over h
    assert found == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)
    model.zero_grad()
    model.train()
    tours = model(cities(4), torch.zeros(4, 1, dtype=torch.long), sample=True)
    tours.log_prob.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.abs().sum() > 0 for p in model.decoder.parameters())
