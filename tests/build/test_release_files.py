"""What a release needs says the same as the package."""

import re
from pathlib import Path
from typing import Any

import yaml

import equigeo

ROOT = Path(__file__).parents[2]
METADATA = (ROOT / "pyproject.toml").read_text()
FIELDS = {"cff-version", "message", "title", "authors", "version", "license"}


def read(name: str) -> dict[str, Any]:
    """A file in YAML, in which ``on`` is a word and not a truth value."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = yaml.load(text, Loader=yaml.BaseLoader)
    assert isinstance(found, dict)
    return found


def test_the_citation_is_of_this_version_and_licence():
    citation = read("CITATION.cff")
    assert FIELDS <= citation.keys()
    assert citation["version"] == equigeo.__version__
    assert f'license = "{citation["license"]}"' in METADATA
    families = {"tensor_products", "affine", "mesh", "mds"}
    assert {entry["notes"] for entry in citation["references"]} == {
        f"equigeo.{name}" for name in families
    }


def test_the_changes_of_this_version_stand_on_top_and_its_minor_version_is_supported():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, date = headings[1].split(" - ")
    assert headings[0] == "Unreleased"
    assert version == equigeo.__version__
    assert read("CITATION.cff")["date-released"] == date
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    minor = ".".join(equigeo.__version__.split(".")[:2])
    assert f"| {minor} | yes |" in (ROOT / "SECURITY.md").read_text()


def test_wheels_are_tried_on_every_python_that_is_declared():
    workflow = read(".github/workflows/wheels.yml")
    declared = re.findall(r"Python :: (3\.\d+)\"", METADATA)
    assert workflow["jobs"]["try"]["strategy"]["matrix"]["python"] == declared
    assert declared[0] == re.findall(r'requires-python = ">=(.*)"', METADATA)[0]


def test_nothing_is_published_that_was_not_tried_or_without_a_tag():
    workflow = read(".github/workflows/wheels.yml")
    jobs = workflow["jobs"]
    assert (jobs["publish"]["needs"], jobs["try"]["needs"]) == ("try", "build")
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/')"
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["on"].keys() == {"push", "workflow_dispatch"}
    assert workflow["on"]["push"] == {"tags": ["v*"]}
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    (check,) = [step for step in steps if "_core/version.py" in step]
    line = f'__version__ = "{equigeo.__version__}"'
    assert line in (ROOT / "equigeo" / "_core/version.py").read_text().splitlines()
    assert '__version__ = \\"${GITHUB_REF_NAME#v}\\"' in check
    assert any("pypa/cibuildwheel@" in step.get("uses", "") for step in jobs["build"]["steps"])
    tried = [
        row["os"] for row in jobs["try"]["strategy"]["matrix"]["include"] if "1" in row["kernels"]
    ]
    assert {"ubuntu-latest", *tried} == set(jobs["build"]["strategy"]["matrix"]["os"])


def test_a_report_of_a_bug_asks_for_what_doctor_prints():
    text = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()
    assert "equigeo doctor" in text
