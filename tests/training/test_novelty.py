import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.testing import tolerance
from equigeo.training.novelty import Novelty, ShrunkCovariance
from tests.wrong_inputs import refused


def _samples(samples, channels, seed):
    draw = torch.Generator().manual_seed(seed)
    spread = torch.logspace(0, -1, channels, dtype=torch.float64)
    return torch.randn(samples, channels, generator=draw, dtype=torch.float64) * spread


def _ledoit_wolf(x):
    """By the sums of the paper, sample by sample, with dense matrices."""
    samples, channels = x.shape
    found = x.mT @ x / samples
    target = torch.eye(channels, dtype=x.dtype) * found.trace() / channels
    distance = (found - target).square().sum()
    error = sum((torch.outer(row, row) - found).square().sum() for row in x) / samples**2
    share = min(float(error / distance), 1.0)
    return share * target + (1 - share) * found


@given(samples=st.integers(4, 30), channels=st.integers(2, 30), seed=st.integers(0, 99))
def test_lengths_are_those_of_the_dense_inverse(samples, channels, seed):
    # Of fewer samples than channels and of more
    x = _samples(samples, channels, seed)
    found = ShrunkCovariance.fit(x)
    y = _samples(5, channels, seed + 1)
    dense = torch.linalg.inv(_ledoit_wolf(x))
    expected = torch.einsum("ni,ij,nj->n", y, dense, y)
    bound = tolerance(torch.float64, 30, condition=100)  # which shrinkage leaves
    torch.testing.assert_close(found.squared_lengths(y), expected, **bound)
    assert len(found.axes) <= min(samples, channels)


def test_too_little_to_fit_to_gives_nothing():
    for x in (torch.zeros(4, 3), torch.zeros(1, 1)):
        assert ShrunkCovariance.fit(x.double()) is None
    nan = torch.full((20, 3), torch.nan)
    for vectors in (torch.zeros(0, 3), torch.zeros(1, 3), torch.ones(20, 3), nan):
        assert Novelty.fit(vectors, torch.zeros(len(vectors), dtype=torch.long)) is None


CHANNELS, CLASSES = 24, 4
MIXING = torch.randn(CHANNELS, CHANNELS, generator=torch.Generator().manual_seed(7))
CENTERS = 20 * torch.randn(CLASSES, CHANNELS, generator=torch.Generator().manual_seed(8))


def _draw(samples, seed):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    return torch.randn(samples, CHANNELS, generator=draw) @ MIXING + CENTERS[labels], labels


def test_the_promised_share_of_new_samples_passes():
    # As conformal prediction promises, on average over training sets
    new = _draw(2000, 100)[0]
    shares = [
        float((Novelty.fit(*_draw(120, seed))(new) <= 1).double().mean()) for seed in range(20)
    ]
    mean = sum(shares) / len(shares)
    # 1 % of 2,000 fail, give or take a few tenths of a per cent by training set
    assert 0.98 < mean < 1.0
    assert Novelty.fit(*_draw(120, 0)).share == 0.99


def test_what_lies_between_the_classes_or_leaves_a_constant_is_novel():
    novelty = Novelty.fit(*_draw(400, 0))
    between = CENTERS.mean(dim=0)[None]
    assert novelty(between).item() > 1
    assert novelty(CENTERS).max().item() < 1
    vectors, labels = _draw(120, 0)
    vectors[:, 3] = 5.0
    novelty = Novelty.fit(vectors, labels)
    other = vectors[:1].clone()
    other[0, 3] = 5000.0
    assert novelty(vectors[:1]).item() < 1 < novelty(other).item()


def test_states_and_units_do_not_matter():
    vectors, labels = _draw(120, 0)
    scale = torch.logspace(-3, 3, CHANNELS)
    first, second = Novelty.fit(vectors, labels), Novelty.fit(vectors * scale + 10, labels)
    new = _draw(50, 1)[0]
    # Beside an offset of 10 float32 has steps of 1e-6, where the smallest channel spreads by 5e-3.
    torch.testing.assert_close(first(new), second(new * scale + 10), rtol=1e-3, atol=0.0)
    novelty = Novelty.fit(*_draw(120, 0))
    again = Novelty.from_state(novelty.state_dict(), CLASSES, CHANNELS)
    new = _draw(50, 1)[0]
    # states are float32, 6e-8, which the inverse of a covariance multiplies by up to 100
    torch.testing.assert_close(again(new), novelty(new), rtol=1e-5, atol=0.0)
    assert again.share == pytest.approx(novelty.share)
    with pytest.raises(ValueError, match="weight 'mean' has shape"):
        Novelty.from_state(Novelty.fit(*_draw(120, 0)).state_dict(), CLASSES, CHANNELS + 1)


def test_versions_of_a_sample_are_left_out_with_it():
    vectors, labels = _draw(60, 0)
    versions = torch.cat([vectors, vectors + 1e-3])
    origins = torch.arange(60).repeat(2)
    apart = Novelty.fit(versions, labels.repeat(2), origins)
    together = Novelty.fit(versions, labels.repeat(2))
    alone = Novelty.fit(vectors, labels)
    assert apart.limit > 1.2 * together.limit  # a twin in the fit makes everything look familiar
    # folds are the same, but covariances of twice as many samples are shrunk half as much
    assert apart.limit == pytest.approx(alone.limit, rel=0.2)


def test_classes_of_one_sample_leave_the_limit_of_the_others_alone():
    def limit(*counts):
        labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        draw = torch.Generator().manual_seed(0)
        noise = torch.randn(len(labels), 16, generator=draw, dtype=torch.float64)
        return Novelty.fit(30 * torch.eye(16, dtype=torch.float64)[labels] + noise, labels).limit

    # Folds are drawn anew, and with them the largest of ninety distances; wrong is six times it.
    of_three = pytest.approx(limit(30, 30, 30), rel=0.3)
    assert limit(30, 30, 30, 1) == of_three
    assert limit(30, 30, 30, 1, 1) == of_three


def test_few_samples_promise_less_and_vectors_of_other_channels_are_refused():
    novelty = Novelty.fit(*_draw(20, 0))
    assert novelty.share == pytest.approx(20 / 21)
    assert "within which 95 % of training samples lie" in novelty.describe(2.0)
    refused(r"vectors must be \(samples, 24\), got \(1, 3\)", novelty, torch.zeros(1, 3))


CHANGES = [
    {"centers": None},
    {"centers": torch.zeros(0, CHANNELS)},
    {"centers": torch.zeros(CHANNELS)},
    {"centers": torch.zeros(CLASSES + 1, CHANNELS)},
    {"centers": torch.zeros(4, CHANNELS + 1)},
    {"axes": torch.zeros(CHANNELS + 1, CHANNELS)},
    {"axes": torch.zeros(1).expand(10**9, CHANNELS)},
    {"mean": torch.full((CHANNELS,), torch.nan)},
    {"deviation": torch.zeros(CHANNELS)},
    {"deviation": "wide"},
    {"numbers": torch.tensor([1.0, 0.99, 0.0])},
    {"numbers": torch.tensor([-1.0, 0.99, 1.0])},
    {"numbers": torch.tensor([1.0, 1.0, 1.0])},
    {"numbers": torch.zeros(2)},
    {"more": torch.zeros(2)},
]


def test_what_is_not_finite_is_far_and_a_state_of_nothing_is_refused():
    novelty = Novelty.fit(*_draw(120, 0))
    for value in (torch.nan, torch.inf, -torch.inf, 3e38):
        assert novelty(torch.full((1, CHANNELS), value)).item() == 1e6
    for change in CHANGES:
        state = novelty.state_dict() | change
        refused(r"\w", Novelty.from_state, state, CLASSES, CHANNELS)
