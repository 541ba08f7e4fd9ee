"""The compiled core: see core/src/lib.rs for what each call does."""

from collections.abc import Mapping
from typing import final

DICTIONARY: int

@final
class Dictionary:
    def __new__(cls, block: object) -> Dictionary: ...

@final
class Form:
    def __new__(cls, fold: bytes | None) -> Form: ...
    def normalise(self, text: str) -> str: ...
    def growing_shingles(self, text: str) -> tuple[bytearray, bytearray]: ...
    def words(self, text: str, dictionary: Dictionary) -> list[tuple[str, int, int]]: ...

@final
class Boilerplate:
    def __new__(cls, lines: list[str], phrases: list[str], form: Form) -> Boilerplate: ...
    def strip(self, texts: list[str]) -> list[str]: ...

@final
class Units:
    def __new__(cls, texts: list[str]) -> Units: ...
    def items(self) -> list[bytearray]: ...
    def shown(self, piece: int, first: int, behind: int) -> str: ...
    def every(self) -> list[str]: ...

@final
class Pipeline:
    def __new__(
        cls,
        form: Form,
        dictionary: Dictionary | None,
        kind: str,
        weights: str,
        top: int,
        min_length: int,
        stop_words: list[str],
        idf: Mapping[str, int],
        unknown: int,
        bits: int,
        min_features: int,
        boilerplate: Boilerplate | None,
        sketching: tuple[int, int, int, bool, bool, bool] | None,
    ) -> Pipeline: ...
    def fingerprint(self, texts: list[str]) -> tuple[bytearray, bytearray, bytearray]: ...
    def features(self, texts: list[str]) -> tuple[bytearray, bytearray]: ...
    def words(self, text: str) -> list[tuple[str, int]]: ...

def build_dictionary(
    content: str,
    starts: list[float],
    transitions: list[list[float]],
    emissions: list[dict[str, float]],
) -> bytes: ...
def document_frequencies(texts: list[str], dictionary: Dictionary) -> dict[str, int]: ...
def unicode_sum() -> int: ...
