"""Progress bar of downloads and conversions."""

from __future__ import annotations

from collections.abc import Callable


def progress(
    name: str,
    unit: str = "it",  # "B" for bytes
) -> Callable[[int, int | None], None] | None:
    """Return a callback with (done, total) that shows a bar, or None without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    bar = tqdm(desc=name, unit=unit, unit_scale=unit == "B")

    def show(done: int, total: int | None) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
