from __future__ import annotations

from hypothesis import settings

# The first call of an op loads and caches things; how long one example takes says nothing.
settings.register_profile("equigeo", deadline=None)
settings.load_profile("equigeo")
