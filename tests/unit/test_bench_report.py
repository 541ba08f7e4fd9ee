"""What a benchmark says of the page that it was written to before."""

from tests.bench.report import Table, changes

COLUMNS = ["scheme", "recall", "rows"]


def page(*rows):
    other = Table("Other schemes", COLUMNS, [["default", "0.1 (0-1)", 10], ["other", "0.1 (0-1)", 1]])
    return Table("Schemes", COLUMNS, [list(row) for row in rows]).markdown() + other.markdown()


def test_rows_that_changed_are_told_with_both_figures():
    now = Table("Schemes", COLUMNS, [["default", "60.1 (59-61)", 10], ["wide", "95.0 (94-96)", 20]])
    earlier = page(("default", "61.0 (60-62)", 10), ("wide", "95.0 (94-96)", 20))
    assert changes(earlier, [now]) == ["Schemes", "  default | 61.0 (60-62) -> 60.1 (59-61) | 10"]


def test_rows_that_a_page_does_not_have_are_new():
    now = Table("Schemes", COLUMNS, [["default", "60.1 (59-61)", 10], ["other", "1.0 (0-2)", 1]])
    assert changes(page(("default", "60.1 (59-61)", 10)), [now]) == [
        "Schemes",
        "  new: other | 1.0 (0-2) | 1",
    ]


def test_of_equal_tables_nothing_is_told():
    rows = [["default", "60.1 (59-61)", 10]]
    assert changes(page(*rows), [Table("Schemes", COLUMNS, rows)]) == []
