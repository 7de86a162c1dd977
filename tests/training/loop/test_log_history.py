from inspect import signature
from typing import ClassVar

import pytest

from equigeo.training import log_history
from equigeo.training.loop import session as module
from tests.tasks.mesh_run import train_meshes

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


def test_configuration_then_epochs_then_the_end_are_said(config, dataset, small_model, tmp_path):
    noted = Noted()
    callbacks = log_history(noted, tmp_path / "run")
    trained = train_meshes(
        config, dataset, tmp_path / "run", model=small_model(), callbacks=callbacks
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
    with pytest.raises(ValueError, match=r"csv or .* or mlflow, or one of Lightning"):
        log_history("paper", tmp_path)
    with pytest.raises(ValueError, match="one of Lightning, got int"):
        log_history(3, tmp_path)


class Service(loggers.Logger):
    """Stand in for the logger of a service that is not installed, and note how it is made."""

    name, version = "service", 0
    made: ClassVar[list[dict[str, object]]] = []

    def __init__(self, **options):
        super().__init__()
        self.made.append(options)

    def log_metrics(self, metrics, step=None): ...

    def log_hyperparams(self, params): ...


@pytest.fixture
def service(monkeypatch):
    """Lightning's loggers of services, replaced; what they need is there."""
    monkeypatch.setattr(Service, "made", [])
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    for name in ("WandbLogger", "MLFlowLogger"):
        monkeypatch.setattr(loggers, name, Service)
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return Service


def test_services_are_told_the_name_of_the_run(
    service, config, dataset, small_model, tmp_path, monkeypatch
):
    run = tmp_path / "mine"
    log_history("wandb", run)
    log_history("mlflow", run)
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    log_history("wandb", run)
    callbacks = log_history("mlflow", run)
    local = {"tracking_uri": None, "save_dir": str(run / "mlruns"), "run_name": "mine"}
    assert service.made == [
        {"name": "mine", "project": "equigeo", "save_dir": run},
        {"experiment_name": "equigeo", **local},
        {"name": "mine", "project": "theirs", "save_dir": run},
        {"experiment_name": "theirs", **local, "tracking_uri": "http://127.0.0.1:9"},
    ]
    trained = train_meshes(config, dataset, run, model=small_model(), callbacks=callbacks)
    assert trained.is_finished


def test_the_loggers_of_lightning_take_what_they_are_given():
    wandb, mlflow = (
        signature(getattr(loggers, name)).parameters for name in ("WandbLogger", "MLFlowLogger")
    )
    assert {"name", "project", "save_dir"} <= wandb.keys()
    assert {"experiment_name", "run_name", "tracking_uri", "save_dir"} <= mlflow.keys()


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_service_that_is_missing_is_named_with_the_remedy(name, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=f"the logger {name} needs {name}: pip install {name}"):
        log_history(name, tmp_path)
