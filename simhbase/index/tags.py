"""Tags of documents: name-value pairs that lookups can filter by."""

from __future__ import annotations

from collections.abc import Mapping

from simhbase.errors import UsageError

Tags = tuple[tuple[str, str], ...]  # sorted by name, names distinct

MOST_TAGS = 16
MOST_NAME_BYTES, MOST_VALUE_BYTES = 64, 255  # in UTF-8
MOST_SHOWN = 80  # characters of a value in a message


def tags_of(given: Mapping[str, str]) -> Tags:
    """Convert a mapping to Tags. Raises UsageError if it does not map strings to strings."""
    if isinstance(given, Mapping) and all(isinstance(text, str) for tag in given.items() for text in tag):
        return tuple(sorted(given.items()))
    raise UsageError(f"invalid tags {repr(given)[:MOST_SHOWN]}: use a dict of strings, {{'tenant': 'a'}}")


def tags_problem(tags: Tags) -> str | None:
    """Why tags are invalid, None if they are valid."""
    if len(tags) > MOST_TAGS:
        return f"the document has {len(tags)} tags, at most {MOST_TAGS} are allowed"
    for name, value in tags:
        problem = _problem("the name of a tag", name, MOST_NAME_BYTES)
        if problem is None and "=" in name:
            problem = f"the name of the tag {name!r} contains ="
        problem = problem or _problem(f"the tag {name!r}", value, MOST_VALUE_BYTES)
        if problem is not None:
            return problem
    return None


def required_tags(given: Mapping[str, str] | None) -> Tags:
    """Tags to filter by. Raises UsageError if they are invalid."""
    tags = () if given is None else tags_of(given)
    if problem := tags_problem(tags):
        raise UsageError(f"invalid tags: {problem}")
    return tags


def _problem(what: str, text: str, most: int) -> str | None:
    if not text:
        return f"{what} is empty"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{what} is not valid Unicode (it contains half of a surrogate pair)"
    return f"{what} has {size} bytes in UTF-8, at most {most} are allowed" if size > most else None
