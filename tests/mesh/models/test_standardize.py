"""Standardisation over all nodes of all training meshes."""

import pytest
import torch

from equigeo.mesh.models.standardize import Standardize
from tests.mesh.definitions import F64, assert_close


def _features(seed=0, sizes=(5, 0, 40)):
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(n, 3, dtype=F64, generator=generator) for n in sizes]
    return [x * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 5.0, -3.0]) for x in draw]


def test_training_features_leave_with_zero_mean_and_unit_sample_deviation():
    standardize = Standardize(3).double()
    features = _features()
    standardize.fit(features)
    rows = standardize(torch.cat(features))
    assert_close(rows.mean(dim=0), torch.zeros(3), terms=45, condition=40)
    assert_close(rows.std(dim=0, unbiased=True), torch.ones(3), terms=45, condition=40)


def test_all_nodes_count_alike_whatever_their_mesh():
    one, several = Standardize(3).double(), Standardize(3).double()
    features = _features()
    several.fit(features)
    one.fit([torch.cat(features)])
    assert torch.equal(one.mean, several.mean)
    assert torch.equal(one.deviation, several.deviation)


def test_other_features_meet_the_numbers_of_the_training_set():
    standardize = Standardize(3).double()
    standardize.fit(_features())
    stacked = torch.cat(_features())
    other = torch.cat(_features(seed=1))
    expected = (other - stacked.mean(dim=0)) / stacked.std(dim=0)
    assert_close(standardize(other), expected, terms=45, condition=40)


def test_the_numbers_travel_with_the_state():
    fitted, fresh = Standardize(3), Standardize(3)
    fitted.fit(_features())
    fresh.load_state_dict(fitted.state_dict())
    x = _features(seed=2)[0]
    assert torch.equal(fresh(x), fitted(x))
    assert not list(fitted.parameters())


def test_before_it_is_fitted_it_is_the_identity():
    x = _features()[0]
    assert torch.equal(Standardize(3).double()(x), x)


def test_a_constant_channel_keeps_deviation_one_and_warns():
    standardize = Standardize(2)
    rows = torch.tensor([[1.0, 0.1], [3.0, 0.1], [5.0, 0.1]], dtype=F64)
    with pytest.warns(UserWarning, match=r"channels \[1\] are constant"):
        standardize.fit([rows])
    out = standardize(rows)
    # a unit in the last place of a tenth in float32, in which both are: 2^-27
    assert float(out[:, 1].abs().max()) <= 2.0**-27
    assert out[:, 0].tolist() == [-1, 0, 1]


def test_a_single_row_has_no_deviation_and_gives_no_nan():
    standardize = Standardize(3)
    standardize.fit([torch.ones(1, 3)])
    assert not bool(standardize(torch.ones(1, 3)).any())


@pytest.mark.parametrize("features", [[], [torch.zeros(0, 3)], [torch.zeros(4, 2)]])
def test_no_rows_or_other_channels_are_refused(features):
    with pytest.raises(ValueError, match=r"features must be \(nodes, 3\)"):
        Standardize(3).fit(features)
