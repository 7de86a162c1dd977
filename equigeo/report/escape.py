"""Text and data made safe to stand in a page."""

from __future__ import annotations

import html
import json
from typing import Any


def escape_text(text: object) -> str:
    """Escape text for HTML content and attributes, and for the labels of plotly figures.

    Plotly reads a small set of tags in its labels, so these need the same treatment.

    Examples
    --------
    >>> escape_text("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(text), quote=True)


def escape_json(value: Any) -> str:
    r"""Serialise JSON types for a script element, which no string inside can end.

    Raises
    ------
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> print(escape_json(["</script>"]))
    ["\u003c/script>"]
    """
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
