from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.tasks.mesh_classification.data import LabelledGraphs
from equigeo.training.labelled_source import LabelledBatch
from equigeo.training.loop.epoch_batches import EpochBatches


class _Recorder(LabelledGraphs):
    """Labels are positions, and no graph is built."""

    def split(self, indices):
        return [list(indices)]

    def batch(self, indices, total=None, generator=None):
        return LabelledBatch(None, self.labels[torch.tensor(indices)], total)


def _source(number):
    return _Recorder([None] * number, torch.arange(number))


def _labels(batches):
    return [batches[step].labels.tolist() for step in range(len(batches))]


@settings(deadline=None, max_examples=50)
@given(number=st.integers(8, 70), size=st.integers(8, 32), processes=st.integers(1, 2))
def test_processes_see_every_mesh_once_in_even_batches(number, size, processes):
    shares = [
        EpochBatches(_source(number), size, seed=0, epoch=1, process=p, num_processes=processes)
        for p in range(processes)
    ]
    seen = sorted(i for share in shares for step in _labels(share) for i in step)
    assert seen == list(range(number))
    totals = [shares[0][step].total for step in range(len(shares[0]))]
    assert max(totals) <= size
    assert max(totals) - min(totals) <= 1


def test_order_depends_on_seed_and_epoch_alone():
    def order(seed, epoch):
        return _labels(EpochBatches(_source(20), 8, seed=seed, epoch=epoch))

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


@given(first=st.integers(0, 3))
def test_an_epoch_continues_at_any_step(first):
    whole = EpochBatches(_source(20), 6, seed=0, epoch=3)
    rest = EpochBatches(_source(20), 6, seed=0, epoch=3, first_step=first)
    assert len(rest) == len(whole) - first
    assert _labels(rest) == _labels(whole)[first:]


def test_too_few_meshes_for_the_processes_are_refused():
    with pytest.raises(ValueError, match="at least two samples per step, got 3 samples for 2"):
        EpochBatches(_source(3), 8, seed=0, epoch=0, num_processes=2)


@pytest.fixture(scope="module")
def graphs():
    from equigeo.mesh import PrimalDualGraph
    from tests.tasks.tiny_data import tiny_dataset

    dataset = tiny_dataset(train=2, test=0)
    return LabelledGraphs([PrimalDualGraph.from_mesh(m) for m in dataset.meshes], dataset.labels)


def test_jitter_is_repeatable_and_differs_between_epochs(graphs):
    def features(epoch, jitter=0.1):
        noisy = replace(graphs, jitter=jitter)
        return EpochBatches(noisy, 6, seed=0, epoch=epoch)[0].inputs.x_dual.sum(dim=0)

    assert torch.equal(features(0), features(0))
    assert not torch.allclose(features(0), features(1))
    assert torch.allclose(features(0, 0.0), features(1, 0.0), rtol=1e-4)  # order alone differs


def test_graphs_travel_to_processes_by_value(graphs):
    copy = pickle.loads(pickle.dumps(replace(graphs, jitter=0.5)))
    assert torch.equal(copy.labels, graphs.labels)
    assert copy.jitter == 0.5
    assert torch.equal(copy.batch([3, 1]).inputs.x_dual, graphs.batch([3, 1]).inputs.x_dual)
