"""A hook of mkdocs: pages of the repository that are not in docs are pages of the site, too, and links are
those that work in the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OTHERS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "schema/format.md")
FRONT = {"README.md": "index.md"}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^):#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside docs, under their paths in the repository."""
    for path in OTHERS:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Links between paths of the repository become links between pages; what is no page is named only."""
    here = page.file.src_uri
    folder = posixpath.dirname(here if here in OTHERS else f"docs/{here}")

    def of_site(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        target = posixpath.normpath(posixpath.join(folder, path))
        if not (ROOT / target).exists():
            return link[0]  # mkdocs says that it is broken
        uri = target.removeprefix("docs/") if target.startswith("docs/") else FRONT.get(target, target)
        if not (uri in OTHERS or uri == "index.md" or target.startswith("docs/")):
            return f"{text} (`{target}`)" if text.strip("`") != target else f"`{target}`"
        return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(here) or '.')}{anchor})"

    return LINK.sub(of_site, markdown)
