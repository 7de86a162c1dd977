"""Links of a built site: every file and every anchor that a page refers to is there.

    python -m docs.extensions.check_links build/docs/html

Nothing is fetched from elsewhere either: no script, style, font or picture.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a page loads when it is opened, and what a reader follows.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("object", "data")}
FOLLOWED = {("a", "href")}


class Page(HTMLParser):
    """Anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read the attributes of an element."""
        values = {name: value or "" for name, value in attributes}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        for name, value in values.items():
            if (tag, name) in LOADED and values.get("rel") not in ("canonical", "next", "prev"):
                self.links.append((value, True))
            elif (tag, name) in FOLLOWED:
                self.links.append((value, False))


def broken_links(site: Path) -> list[str]:
    """List what is wrong.

    Parameters
    ----------
    site : Path
        Folder of the built pages.

    Returns
    -------
    list of str
        ``page: link``, with the reason.
    """
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        for link, loaded in page.links:
            if problem := _problem(path, link, loaded, pages):
                problems.append(f"{path.relative_to(site.resolve())}: {link}: {problem}")
    return problems


def _problem(path: Path, link: str, loaded: bool, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from elsewhere" if loaded else None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "no such anchor"
    return None


def main(arguments: list[str]) -> int:
    """Check the site in a folder; 1 if something is wrong."""
    site = Path(arguments[0])
    problems = broken_links(site)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    count = len([*site.rglob("*.html")])
    sys.stdout.write(f"{count} pages, {len(problems)} broken links\n")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
