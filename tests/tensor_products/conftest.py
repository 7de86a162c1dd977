from collections.abc import Iterator
from pathlib import Path

import pytest

from equigeo.nn.module import allow_unreached

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def unreached_outputs() -> Iterator[None]:
    """Take products of random irreps and paths, which leave terms that nothing arrives at."""
    with allow_unreached():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in (item for item in items if item.path.is_relative_to(HERE)):
        item.add_marker(
            pytest.mark.filterwarnings("ignore:.* needs a path to its output:UserWarning")
        )
