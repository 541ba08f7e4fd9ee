"""Unrelated long texts of kinds that have few characters or few patterns."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from random import Random

from tests import reference

COUNT = 8  # texts of a kind


def table(chance: Random) -> str:
    rows = ([f"{chance.uniform(0, 1000):.2f}" for _ in range(8)] for _ in range(1500))
    return "\n".join(",".join(row) for row in rows)


def bases(chance: Random) -> str:
    return "".join(chance.choices("ACGT", k=20_000))


def hex_words(chance: Random) -> str:
    return " ".join(f"{chance.getrandbits(32):08x}" for _ in range(8_000))


def time_stamps(chance: Random) -> str:
    stamps = (datetime.fromtimestamp(chance.randrange(2**31), UTC) for _ in range(4_000))
    return "\n".join(stamp.isoformat() for stamp in stamps)


def representation(chance: Random) -> str:
    """Like the intermediate representation of a compiler: 4,000 lines."""
    operations = ["add", "sub", "mul", "xor", "shl", "and", "or", "icmp eq", "icmp slt", "load", "store"]
    kinds = ["i32", "i64", "i8", "ptr", "double"]
    lines = (
        f"  %{number} = {chance.choice(operations)} {chance.choice(kinds)} %{chance.randrange(number + 1)}, "
        f"{chance.choice([f'%{chance.randrange(number + 1)}', str(chance.randrange(4096))])}"
        for number in range(1, 4001)
    )
    return "\n".join(lines)


def log(chance: Random) -> str:
    """500 lines of twelve messages of a file system."""
    blocks = [f"blk_{chance.randrange(-(2**63), 2**63)}" for _ in range(200)]
    messages = [
        "INFO dfs.DataNode$PacketResponder: PacketResponder {n} for block {block} terminating",
        "INFO dfs.DataNode$PacketResponder: Received block {block} of size {size} from /{host}",
        "INFO dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: {host}:50010 added to {block} size {size}",
        "INFO dfs.DataNode$DataXceiver: Receiving block {block} src: /{host}:{port} dest: /{host}:50010",
        "INFO dfs.FSNamesystem: BLOCK* NameSystem.allocateBlock: /user/root/rand/part-{size}. {block}",
        "WARN dfs.DataNode$DataXceiver: {host}:50010: Got exception while serving {block} to /{host}:",
    ]

    def line(number: int) -> str:
        host = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
        values = {"n": chance.randrange(3), "block": chance.choice(blocks), "host": host}
        values |= {"size": chance.randrange(10**8), "port": chance.randrange(1024, 65536)}
        return f"081109 {203518 + number} {chance.randrange(200)} {chance.choice(messages).format(**values)}"

    return "\n".join(line(number) for number in range(500))


GENERATED: Mapping[str, Callable[[Random], str]] = {
    "tables of 1,500 rows of eight numbers": table,
    "20,000 bases": bases,
    "8,000 hex words": hex_words,
    "4,000 time stamps": time_stamps,
    "IR of 4,000 lines": representation,
    "logs of 500 lines": log,
}


def texts_of(kind: str) -> list[str]:
    """Texts of a generated kind."""
    return [GENERATED[kind](Random(f"{kind} {number}")) for number in range(COUNT)]


def books() -> list[str]:
    """News of different years, put together to texts of 300,000 characters. Skips the test without them."""
    news = (text for _, text in reference.documents("xwlb_chinadata", 7))
    found = []
    for _ in range(COUNT):
        book, length = [], 0
        while length < 300_000:
            book += list(islice(news, 100))
            length = sum(map(len, book))
        found.append("\n".join(book)[:300_000])
    return found
