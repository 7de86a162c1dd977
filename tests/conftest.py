from __future__ import annotations

import os

from hypothesis import settings

# The first call of an op loads and caches things; how long one example takes says nothing.
settings.register_profile("equigeo", deadline=None)
# Every change is judged by the same examples; new ones are searched for on the desk.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "equigeo")
