"""A notebook, executed as Jupyter does: results are tables, and progress is a line."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELLS = (
    """import pandas as pd
import simhbase
texts = [f"Page {n % 90} of the report says that prices rose in {n % 90} towns." for n in range(100)]
frame = pd.DataFrame({"url": range(100), "body": [*texts[:99], None]})""",
    """fields = {"id_field": "url", "text_field": "body", "progress": simhbase.show_progress}
found = simhbase.dedup(frame, min_similarity=0.99, **fields)
found""",
    """index = simhbase.open("memory:", create="complete")
index.add(found.frame, **fields)""",
    "index.close()",
)


def test_a_notebook_shows_tables_and_progress(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    tables = [output.data["text/html"] for output in outputs if output.output_type == "execute_result"]
    cells = ["".join(f"<td>{number}</td>" for number in row) for row in ((100, 90, 9, 9, 1), (90, 0, 0, 0))]
    assert all(row in table for row, table in zip(cells, tables, strict=True))
    said = [output for output in outputs if output.output_type == "stream"]
    assert {output.name for output in said} == {"stdout"}  # no warnings
    assert "documents, " in "".join(output.text for output in said)
