"""Cache folder for generated and unpacked data."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$EQUIGEO_CACHE``, or the user's cache folder, without creating it."""
    chosen = os.environ.get("EQUIGEO_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(
            "the cache folder needs platformdirs: pip install platformdirs, or set EQUIGEO_CACHE"
        ) from error
    return platformdirs.user_cache_path("equigeo")
