import pytest

from equigeo.groups import GroupSamples
from tests.groups.samples.drawn_samples import STRETCHED, paired


@pytest.fixture(params=STRETCHED, ids=str)
def samples(request: pytest.FixtureRequest) -> GroupSamples:
    return paired(request.param)
