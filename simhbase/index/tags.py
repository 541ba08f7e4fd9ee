"""Tags of documents: a few names with a value each, by which lookups can be limited."""

from __future__ import annotations

from collections.abc import Mapping

from simhbase.errors import UsageError

Tags = tuple[tuple[str, str], ...]  # names and values; the names ascend, and are all different

MOST_TAGS = 16
MOST_NAME_BYTES, MOST_VALUE_BYTES = 64, 255  # in UTF-8
MOST_SHOWN = 80  # characters of a value in a message


def tags_of(given: Mapping[str, str]) -> Tags:
    """The tags that a mapping stands for. Raises UsageError for what is no mapping of strings to strings."""
    if isinstance(given, Mapping) and all(isinstance(text, str) for tag in given.items() for text in tag):
        return tuple(sorted(given.items()))
    raise UsageError(f"{repr(given)[:MOST_SHOWN]} are no tags: use a dict of strings, {{'tenant': 'a'}}")


def tags_problem(tags: Tags) -> str | None:
    """Why a document cannot be stored with these tags, None where it can."""
    if len(tags) > MOST_TAGS:
        return f"the document has {len(tags)} tags, at most {MOST_TAGS} are allowed"
    for name, value in tags:
        problem = _problem("the name of a tag", name, MOST_NAME_BYTES)
        if problem is None and "=" in name:
            problem = f"the name of the tag {name!r} holds the sign ="
        problem = problem or _problem(f"the tag {name!r}", value, MOST_VALUE_BYTES)
        if problem is not None:
            return problem
    return None


def required_tags(given: Mapping[str, str] | None) -> Tags:
    """The tags that documents are to have. Raises UsageError for what no document can be tagged with."""
    tags = () if given is None else tags_of(given)
    if problem := tags_problem(tags):
        raise UsageError(f"no document can have these tags: {problem}")
    return tags


def _problem(what: str, text: str, most: int) -> str | None:
    if not text:
        return f"{what} is empty"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{what} is no valid Unicode text (it holds half of a surrogate pair)"
    return f"{what} has {size} bytes in UTF-8, at most {most} are allowed" if size > most else None
