"""The page of benchmarks draws the records, says where they come from, and needs nothing else."""

import json
import re

from bench.report import main


def test_the_page_has_every_section_and_fetches_nothing(tmp_path):
    main([str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("against the degree", "degree of freedom", "memory traffic", "beside peers",
                  "Training loss"):  # fmt: skip
        assert words in text
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text)
    drawings = re.findall(r'class="figure" data-target="[^"]+">(.*?)</script>', text, re.DOTALL)
    assert len(drawings) >= 14
    for drawing in drawings:
        assert all(any(trace["x"]) and any(trace["y"]) for trace in json.loads(drawing)["data"])
    assert text.count("commit") >= len(drawings)
