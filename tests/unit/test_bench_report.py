"""What a benchmark says of the CSV files that it has written before."""

from tests.bench.report import Table, changes

COLUMNS = ["scheme", "recall", "rows"]


def written(folder, *rows):
    other = Table("Other schemes", COLUMNS, [["default", "0.1 (0-1)", 10], ["other", "0.1 (0-1)", 1]])
    for table in (Table("Schemes", COLUMNS, [list(row) for row in rows]), other):
        (folder / table.file_name).write_text(table.csv())
    return folder


def test_rows_that_changed_are_told_with_both_figures(tmp_path):
    now = Table("Schemes", COLUMNS, [["default", "60.1 (59-61)", 10], ["wide", "95.0 (94-96)", 20]])
    earlier = written(tmp_path, ("default", "61.0 (60-62)", 10), ("wide", "95.0 (94-96)", 20))
    assert changes(earlier, [now]) == ["Schemes", "  default | 61.0 (60-62) -> 60.1 (59-61) | 10"]


def test_rows_that_a_file_does_not_have_are_new(tmp_path):
    now = Table("Schemes", COLUMNS, [["default", "60.1 (59-61)", 10], ["other", "1.0 (0-2)", 1]])
    assert changes(written(tmp_path, ("default", "60.1 (59-61)", 10)), [now]) == [
        "Schemes",
        "  new: other | 1.0 (0-2) | 1",
    ]


def test_of_equal_tables_nothing_is_told(tmp_path):
    rows = [["default", "60.1 (59-61)", 10]]
    assert changes(written(tmp_path, *rows), [Table("Schemes", COLUMNS, rows)]) == []
