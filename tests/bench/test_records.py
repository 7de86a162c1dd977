"""What is recorded has the form of the schema, and says where it comes from."""

import ast
import json
import re
import subprocess
from pathlib import Path
from symtable import symtable

import pytest

from bench.recorder import headers
from bench.schema import RESULTS, problems

REPOSITORY = Path(__file__).parents[2]
FILES = {
    file.relative_to(RESULTS).with_suffix("").as_posix(): file for file in RESULTS.rglob("*.json")
}
# What may read and write files by itself.
WRITERS = {"figures.py", "recorder.py", "schema.py"}


@pytest.fixture(scope="module")
def records():
    return {name: json.loads(file.read_text()) for name, file in FILES.items()}


def named(records, condition):
    """Names of files of which any record has that."""
    return sorted(name for name, each in records.items() if any(map(condition, headers(each))))


def test_every_file_has_the_form_of_the_schema_and_is_json_that_browsers_read(records):
    assert {name: found for name, each in records.items() if (found := list(problems(each)))} == {}
    for name, content in records.items():
        json.dumps(content, allow_nan=False)
        assert FILES[name].read_text().endswith("}\n"), name


def test_every_record_names_its_processor_and_the_commit_of_a_clean_tree(records):
    assert named(records, lambda header: None in (header["commit"], header["processor"])) == []
    assert named(records, lambda header: header["tree"] != "clean") == []


def test_commits_of_records_can_be_looked_up(records):
    ask = ["git", "-C", str(REPOSITORY)]
    try:
        shallow = subprocess.check_output([*ask, "rev-parse", "--is-shallow-repository"], text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this copy has no history to look commits up in")
    if shallow.strip() == "true":
        pytest.skip("this copy has a part of the history only")
    commits = {h["commit"] for each in records.values() for h in headers(each) if h["commit"]}
    said = subprocess.check_output(
        [*ask, "cat-file", "--batch-check"], input="\n".join(commits), text=True
    )
    unknown = {line.split()[0] for line in said.splitlines() if line.endswith("missing")}
    if unknown == commits:
        pytest.skip("this copy has a history of its own")
    assert named(records, lambda h: h["commit"] in unknown) == []


def test_unknown_circumstances_are_said_to_be_unknown(records):
    for name, each in records.items():
        for header in headers(each):
            if "code" in header and None in header.values():
                assert re.fullmatch("[0-9a-f]{40}", header["recorded in"]), name


def test_the_schema_refuses_what_it_should():
    record = json.loads(FILES["compiled_step"].read_text())
    assert list(problems(record)) == []
    for change, message in [
        ({"command": 3}, "/command: expected string or array or null, got 3"),
        ({"commit": "main"}, '/circumstances/commit: expected ^[0-9a-f]{40}$, got "main"'),
        ({"tree": "dirty"}, "/circumstances/tree: expected one of"),
        ({"cores": True}, "/circumstances/cores: expected integer or null, got true"),
        ({"load average": [1.0]}, "/circumstances/load average: expected at least 3 entries"),
    ]:
        changed = record | {"circumstances": record["circumstances"] | change} | change
        assert any(found.startswith(message) for found in problems(changed)), change
    assert list(problems({"runs": []}))
    assert list(problems({"runs": [{"command": "python", "seed": 0}]}))
    with pytest.raises(ValueError, match="'oneOf' is no keyword"):
        list(problems(1, {"oneOf": []}))


def test_all_scripts_write_through_the_recorder():
    for path in sorted((REPOSITORY / "bench").rglob("*.py")):
        if path.name in WRITERS:
            continue
        source = path.read_text()
        assert "write_text(" not in source or "clear_refs" in source, f"{path.name} writes a file"
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench."):
                source = REPOSITORY / node.module.replace(".", "/")
                source = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
                names = {*symtable(source.read_text(), str(source), "exec").get_identifiers()}
                if source.name == "__init__.py":
                    names |= {path.stem for path in source.parent.glob("*.py")}
                missing = [alias.name for alias in node.names if alias.name not in names]
                assert not missing, f"{path.name}:{node.lineno}: {node.module} has no {missing}"
