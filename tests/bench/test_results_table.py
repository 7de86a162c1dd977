from bench.results_table import PAGE, UNKNOWN, content, seen


def test_page_lists_all_records():
    assert PAGE.read_text() == content(), "python -m bench.results_table --write"
    assert seen(["AMD EPYC", None, "AMD EPYC"]) == f"AMD EPYC, {UNKNOWN}"
