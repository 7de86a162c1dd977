"""Any logger of Lightning is told what the history says."""

from __future__ import annotations

import pytest

from equigeo.tasks.mesh_classification import MeshClassification
from equigeo.training import log_history
from tests.tasks.mesh_run import config, dataset

__all__ = ["config", "dataset"]
loggers = pytest.importorskip("lightning.pytorch").loggers


class Noted(loggers.Logger):
    """Keep what is said."""

    name, version = "noted", 0

    def __init__(self):
        super().__init__()
        self.said = []

    def log_metrics(self, metrics, step=None):
        self.said.append((step, metrics))

    def log_hyperparams(self, params):
        self.said.append(("configuration", params))

    def save(self):
        self.said.append("save")

    def finalize(self, status):
        self.said.append(status)


def test_configuration_then_epochs_then_the_end_are_said(config, dataset, tmp_path):
    noted = Noted()
    callbacks = log_history(noted, tmp_path / "run")
    trained = MeshClassification().train(
        config, tmp_path / "run", data=dataset, callbacks=callbacks
    )
    configuration, *lines, end = noted.said
    assert configuration == ("configuration", config.to_dict())
    assert end == "success"
    assert lines[1::2] == ["save"] * 3
    for (step, measured), line in zip(lines[::2], trained.history, strict=True):
        assert step == line["epoch"]
        rest = {"epoch", "threads"} | {name for name, value in line.items() if value is None}
        assert measured == {name: value for name, value in line.items() if name not in rest}


def test_what_is_no_logger_is_refused(tmp_path):
    with pytest.raises(ValueError, match="csv or tensorboard, or one of Lightning, got 'paper'"):
        log_history("paper", tmp_path)
    with pytest.raises(ValueError, match="one of Lightning, got int"):
        log_history(3, tmp_path)
