"""No public name vanishes or changes unnoticed."""

import json

from tests.api_surface import COMMAND, TABLE, surface


def test_public_names_and_signatures_are_those_of_the_table():
    table = json.loads(TABLE.read_text())
    assert surface() == table, f"If that is meant, say so in CHANGELOG.md and run `{COMMAND}`."
    assert {"equigeo.groups.GroupSamples.act", "equigeo.mds.embed"} <= table.keys()
    assert not any(" at 0x" in row for row in table.values())
