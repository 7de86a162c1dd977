import pytest

from equigeo.groups import Group
from tests.groups.charts.chart_cases import GROUPS


@pytest.fixture(params=GROUPS, ids=str)
def group(request: pytest.FixtureRequest) -> Group:
    return request.param
