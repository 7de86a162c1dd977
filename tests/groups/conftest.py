import pytest

from equigeo.groups import Group, GroupSamples
from tests.groups.cases import GROUPS, STRETCHED, paired


@pytest.fixture(params=GROUPS, ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param


@pytest.fixture(params=STRETCHED, ids=str)
def samples(request: pytest.FixtureRequest) -> GroupSamples:
    return paired(request.param)
