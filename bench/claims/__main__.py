"""What differs between documents and records, and what nothing stands behind: python -m bench.claims."""

from __future__ import annotations

import sys

from bench.claims import CLAIMS, EXCEPTIONS
from bench.figures import pages, problems, unclaimed


def main() -> int:
    """Print all problems."""
    found = [each for claim in CLAIMS for each in problems(claim)]
    for page in pages():
        words = [text for where, text, _ in EXCEPTIONS if where == page]
        left = unclaimed(page, CLAIMS, words)
        found += [f"{page}: nothing stands behind {each}" for each in left]
    print("\n".join(found) or f"{len(CLAIMS)} claims are those of the records")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
