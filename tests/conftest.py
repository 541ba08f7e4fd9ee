import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

if "CI" not in os.environ:  # there Hypothesis takes its own profile: no deadline, the same examples each run
    settings.register_profile("simhbase", deadline=None)
    settings.load_profile("simhbase")

LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full, which take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    full = [item for item in items if item.get_closest_marker("full")]
    items[:] = [item for item in items if item not in full]
    config.hook.pytest_deselected(items=full)
    config.stash[LEFT_OUT] = len(full)


@pytest.hookimpl(trylast=True)
def pytest_report_collectionfinish(config: pytest.Config) -> Iterator[str]:
    left_out = config.stash.get(LEFT_OUT, 0)
    return [f"{left_out} tests marked full are left out; --full runs them"] if left_out else []
