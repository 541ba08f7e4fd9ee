"""How much memory an embedded store takes."""

from pathlib import Path

import pytest

from simhbase.errors import UsageError
from simhbase.stores import create_store
from simhbase.stores.rocksdb import memory


@pytest.mark.parametrize(
    ("options", "capacity"),
    [("cache=1m", 1 << 20), ("cache=64M", 64 << 20), ("cache=2g", 2 << 30), ("cache=2097152", 2 << 20)],
)
def test_a_url_says_how_large_the_cache_is(options: str, capacity: int) -> None:
    assert memory.memory_for(options).capacity == capacity


@pytest.mark.parametrize(
    "options", ["cache", "cache=", "cache=1", "cache=-1m", "cache=1t", "cash=1m", "x=1&cache=1m"]
)
def test_other_options_are_refused(options: str) -> None:
    with pytest.raises(UsageError, match="cache=256m"):
        create_store(f"rocksdb:/nowhere?{options}")


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "536870912\n"}, 512 << 20),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "268435456\n"}, 256 << 20),
        ("4:memory:/outside\n0::/\n", {"memory/memory.limit_in_bytes": "134217728\n"}, 128 << 20),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("", {}, None),
    ],
)
def test_the_limit_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], limit: int | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "of this process").write_text(groups)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "of this process")
    assert memory.memory_limit() < 1 << 50
    if limit is not None:
        assert memory.memory_limit() == limit
        assert memory.memory_for("").capacity == max(limit // memory.CACHE_SHARE, memory.LEAST_CACHE)


def test_filters_are_held_where_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.sst").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(memory, "memory_limit", lambda: memory.FILTER_SHARE * 90_000)
    assert not memory.memory_for("").has_room_for_filters(tmp_path)
    monkeypatch.setattr(memory, "memory_limit", lambda: memory.FILTER_SHARE * 100_000)
    assert memory.memory_for("").has_room_for_filters(tmp_path)
