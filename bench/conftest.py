from __future__ import annotations

import os
from typing import Any


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    """Report how busy the machine was, and not what it is called."""
    machine_info.pop("node", None)
    machine_info["load_average"] = os.getloadavg()
