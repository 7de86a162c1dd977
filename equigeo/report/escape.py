"""Escaping of text and data for HTML pages."""

from __future__ import annotations

import html
import json
from typing import Any


def escape_text(text: object) -> str:
    """Escape text for HTML and for plotly labels, which are parsed for tags, too."""
    return html.escape(str(text), quote=True)


def escape_json(value: Any) -> str:
    """Serialize JSON types for a script element, so that no string can close it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
