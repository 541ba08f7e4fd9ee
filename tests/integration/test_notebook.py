"""The example notebook, executed as Jupyter does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebooks" / "clean.ipynb"
ROWS = "100_000"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def executed(folder: Path, rows: str) -> Any:
    """The notebook with outputs, run for a number of rows. Raises CellExecutionError."""
    notebook = read()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert f"ROWS = {ROWS}\n" in first.source
    first.source = first.source.replace(f"ROWS = {ROWS}", f"ROWS = {rows}")
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def results(notebook: Any) -> list[str]:
    """What cells end with, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data["text/plain"] for output in outputs if output.output_type == "execute_result"]


def test_a_data_frame_is_cleaned_in_a_notebook(tmp_path: Path) -> None:
    notebook = executed(tmp_path, "1_000")
    shape, cleaned, _, _, differing, again, _, found = results(notebook)
    assert (shape, cleaned) == ("(1000, 2)", "((800, 2), 190, 10)")
    assert (differing, again) == ("['and a few words more']", "(0, 0)")
    lines = [line.split() for line in found.splitlines()[1:]]
    assert [line[1] for line in lines] == ["https://example.org/0", "https://example.org/1", "NaN"]
    said = [output for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    assert {output.name for output in said} == {"stdout"}  # no warnings
    assert "documents, " in "".join(output.text for output in said)


def test_the_notebook_has_the_outputs_of_a_hundred_thousand_rows() -> None:
    """test_a_hundred_thousand_rows_are_cleaned_as_the_notebook_shows makes them again."""
    assert results(read())[:2] == ["(100000, 2)", "((80000, 2), 19000, 1000)"]


@pytest.mark.full
def test_a_hundred_thousand_rows_are_cleaned_as_the_notebook_shows(tmp_path: Path) -> None:
    assert results(executed(tmp_path, ROWS)) == results(read())
