import pytest
import torch
from torch import nn
from torch.optim import swa_utils

from equigeo.training.loop.module import has_statistics, update_bn


def _model():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.BatchNorm1d(8))


def _run(model, batch):
    return model(batch)


def _batches(number=7):
    return 2 + 3 * torch.randn(number, 16, 3)


def _statistics(model):
    return {n: b.clone() for n, b in model.named_buffers()}


def test_statistics_are_those_of_the_population_as_of_torch():
    model, other, batches = _model(), _model(), _batches()
    other.load_state_dict(model.state_dict())
    model(batches[0])  # earlier statistics do not count
    update_bn(model, batches, _run)
    swa_utils.update_bn(batches, other)
    for name, value in _statistics(model).items():
        assert torch.equal(value, _statistics(other)[name]), name


def test_dropout_before_a_norm_does_not_act():
    norm, batches = nn.BatchNorm1d(3), _batches()
    update_bn(nn.Sequential(nn.Dropout(0.9), norm), batches, _run)
    plain = nn.BatchNorm1d(3)
    update_bn(plain, batches, _run)
    assert torch.equal(norm.running_var, plain.running_var)


@pytest.mark.parametrize("training", [True, False])
def test_modes_momenta_weights_and_gradients_are_left_alone(training):
    model = _model().train(training)
    model[3].eval()
    before = {n: p.clone() for n, p in model.named_parameters()}
    update_bn(model, _batches(), _run)
    assert [m.training for m in model] == [training] * 3 + [False]
    assert [model[1].momentum, model[3].momentum] == [0.1, 0.1]
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())


def test_failing_and_missing_batches_leave_modes_momenta_and_statistics():
    model = _model()
    with pytest.raises(RuntimeError):
        update_bn(model, [torch.zeros(4, 5)], _run)
    assert model.training
    assert model[1].momentum == 0.1
    model(_batches()[0])
    before = _statistics(model)
    update_bn(model, [], _run)
    for name, value in _statistics(model).items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("freeze", [nn.Module.eval, lambda norm: norm.requires_grad_(False)])
def test_frozen_layers_keep_their_statistics(freeze):
    model = _model()
    freeze(model[1])
    model[1].running_mean.fill_(5)
    before = _statistics(model)
    update_bn(model, _batches(), _run)
    kept = {n: torch.equal(b, before[n]) for n, b in _statistics(model).items()}
    assert kept == {n: n.startswith("1.") for n in before}
    freeze(model[3])
    assert not has_statistics(model)


def test_a_model_without_running_statistics_is_not_run():
    model = nn.Sequential(nn.LayerNorm(3), nn.BatchNorm1d(3, track_running_stats=False))
    assert not has_statistics(model)
    update_bn(model, iter(lambda: pytest.fail("was run"), None), _run)
