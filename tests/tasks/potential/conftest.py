import pytest

from equigeo.tasks.potential import InteratomicPotential
from tests.cli.finished_run import refused
from tests.tasks.potential.frames import small_config, write

__all__ = ["refused"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("frames") / "rmd17")


@pytest.fixture
def config(folder):
    return small_config(folder)


@pytest.fixture(scope="session")
def trained(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "run"
    return InteratomicPotential().train(small_config(folder, evaluate_every=1), output)
