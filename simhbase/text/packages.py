"""Files and versions of installed packages."""

from __future__ import annotations

from importlib.util import find_spec

from simhbase.errors import BadInput


def package_folder(name: str, missing: str) -> str:
    """Folder of an installed package, which is not imported (that takes 100 ms for jieba). Raises BadInput
    with the message `missing`."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(missing)
    return spec.submodule_search_locations[0]


def package_version(name: str) -> str:
    """Version of an installed package."""
    from importlib.metadata import version  # takes 40 ms, and few processes ask

    return version(name)
