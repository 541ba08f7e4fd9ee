"""Pages, archives and texts that cost much, or that lead elsewhere, as strangers may make them."""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# Parts of pages that strangers may repeat: each once took, or could take, time quadratic in their number.
# %d: another number each time.
REPEATED = {
    "hidden": '<p style="visibility:hidden">some words of it</p>',
    "wide spaces": "\u3000",
    "lone characters": "<b>\u3000好",
    "depth": "<div>",
    "hidden depth": '<div style="visibility:hidden">',
    "formatting": "<b><i>x",
    "rows": "<tr><td>a<td>b",
    "entities": "&amp;&#x4e2d;&lt;",
    "comments": "<!--",
    "attributes": "<a b ",
    "names of tags": "<a",
    "attributes of one <html>": "<html a%d=1>",
    "attributes of one <body>": "<BODY\n/a%d>",
    "quotes": '<a b="',
    "words": "中文 words. ",
}


def page_of(part: str, size: int) -> str:
    """A page of about `size` characters."""
    parts = (part.replace("%d", f"{number}") for number in range(size // len(part)))
    return f"<table><p>{''.join(parts)}x</p>"


def growing_page(size: int) -> str:
    """A page of about `size` characters that takes memory by their square: a parser opens again in each
    paragraph what is open in the first, unless it is the same."""
    half = size // 2
    return f"<p>{''.join(f'<b a{number:06}>' for number in range(half // 12))}{'<p>x' * (half // 4)}"


def _pages(size: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, part in REPEATED.items():
            (folder / f"{name}.html").write_text(page_of(part, size))
        attributes = " ".join(f"data-{number}='>'" for number in range(size // 10))
        (folder / "one tag.html").write_text(f"<p {attributes}>some words</p>")
        (folder / "growing.html").write_text(growing_page(size))
        (folder / "one list.html").write_text(f"<p>some words</p><select>{'<option>x' * (size // 9)}")

    return write


def _long_lines(folder: Path) -> None:
    with gzip.open(folder / "zeros.jsonl.gz", "wb", 9) as packed:
        for _ in range(1 << 9):
            packed.write(bytes(1 << 20))
    (folder / "deep.jsonl").write_bytes(b'{"id":"deep","text":' + b"[" * 1_000_000 + b"\n")


def _wide_window(folder: Path) -> None:
    """A frame of zstd that wants 2 GiB of memory: its head, and a block of one byte repeated."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0, (31 - 10) << 3])
    block = struct.pack("<I", 131_072 << 3 | 1 << 1)[:3] + b"a"
    last = struct.pack("<I", 131_072 << 3 | 1 << 1 | 1)[:3] + b"a"
    (folder / "window.jsonl.zst").write_bytes(head + block * 16_000 + last)


def _one_value_often(folder: Path) -> None:
    """Rows of Parquet that share one value of 16 MB."""
    rows = 2_000
    value = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["ab cd " * 2_800_000]))
    table = pa.table({"id": [str(number) for number in range(rows)], "text": value})
    pq.write_table(table, folder / "often.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)


def _leading_out(folder: Path) -> None:
    (folder / "accounts.txt").symlink_to("/etc/passwd")
    (folder / "variables.txt").symlink_to("/proc/self/environ")
    (folder / "system").symlink_to("/sys")
    os.mkfifo(folder / "pipe.jsonl")


def _texts(folder: Path) -> None:
    texts = ["\u3000" * 300_000, "a" * 1_000_000, "\ud800", "e" + "\u0301" * 300_000, "\x00\u202e\x1b[2J"]
    lines = [json.dumps({"id": f"text {number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "quote.csv").write_text('id,text\na,"' + "b,c\n" * 300_000)


def _cut(folder: Path) -> None:
    packed = gzip.compress(b'{"id":"cut","text":"some words of a text"}\n' * 10_000)
    (folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "no.parquet").write_bytes(b"PAR1" + bytes(1 << 16) + b"PAR1")


# What writes files into a folder, by name.
FILES: Mapping[str, Callable[[Path], None]] = {
    "pages": _pages(1 << 18),
    "long pages": _pages(1 << 21),
    "long lines": _long_lines,
    "a wide window": _wide_window,
    "one value often": _one_value_often,
    "leading out": _leading_out,
    "texts": _texts,
    "cut": _cut,
}
