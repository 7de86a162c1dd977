"""Where generated and unpacked data are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Give ``$EQUIGEO_CACHE``, or the user's cache folder of the platform; nothing is created.

    Returns
    -------
    Path
        The folder, which need not exist.

    Raises
    ------
    ImportError
        If the variable is unset and platformdirs is not installed.

    Examples
    --------
    >>> cache_folder().is_absolute()
    True
    """
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
