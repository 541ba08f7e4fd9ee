"""Loops over the characters of many texts, compiled by Numba (the extra `fast`): the normal form, jieba's
segmentation, and the weights of words. They release the GIL.

Results are bit for bit those of `text/normalise.py` and `text/features.py`. `points` are the code points of
all texts, one text after the other; `ends` says where each ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simhbase.text.saturation import capped, saturated

# Kinds of characters in words, and from HAN on jieba's Han by their code.
BREAK, WORD, ALONE, HAN = 0, 1, 2, 3
# What characters become that are not one other; from SEVERAL down by their place in a list.
AWKWARD, SPACE, GONE, SEVERAL = -1, -2, -3, -4
# What words weigh.
IN_ORDER, COUNTS, CAPPED, SATURATED, BY_TABLE = 0, 1, 2, 3, 4

LONGEST_EXPANSION = 4
_B, _E, _M, _S = 0, 1, 2, 3  # states of jieba's model: a word begins, ends, goes on, or is one character
# A node of the trie: its parent's slot, the base of its children, and the rank of the word that ends there.
_PARENT, _BASE, _RANKS, _NOBODY = 40, 16, (1 << 16) - 1, (1 << 24) - 1
_FIRST_HAN = 0x4E00
_U = np.uint64
_capped, _saturated = njit(capped), njit(saturated)  # here of one word
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)  # of MurmurHash3


@njit(cache=True, nogil=True)
def double_array(
    parents: NDArray[np.int32], codes: NDArray[np.uint16], ends: NDArray[np.int32], ranks: NDArray[np.uint16]
) -> NDArray[np.uint64]:
    """The nodes of `dictionary.Dictionary` (Aoe: An Efficient Digital Search Algorithm by Using a
    Double-Array Structure, 1989).

    parents, codes: by node (the root is 0), in the order of parents; ends, ranks: by word, the node that it
    ends at and its rank. The children of a node lie at its base + their codes. Nodes with the most children
    are placed first; the others fit into the gaps.
    """
    count = len(parents)
    first = np.zeros(count + 1, np.int32)
    for node in range(1, count):
        first[parents[node] + 1] += 1
    most = 0
    for node in range(count):
        most = max(most, first[node + 1])
    by_size = np.zeros(most + 2, np.int32)
    for node in range(count):
        by_size[most - first[node + 1] + 1] += 1
    for size in range(most + 1):
        by_size[size + 1] += by_size[size]
    order = np.empty(count, np.int32)
    for node in range(count):
        size = most - first[node + 1]
        order[by_size[size]] = node
        by_size[size] += 1
    for node in range(count):
        first[node + 1] += first[node]
    # The children of a node are the nodes from 1 + first[node] to first[node + 1].
    widest = 0
    for node in range(count):
        widest = max(widest, codes[node])
    capacity = 4 * count + 2 * widest
    is_taken = np.zeros(capacity, np.bool_)
    is_taken[0] = True
    bases, slots = np.zeros(count, np.int32), np.zeros(count, np.int32)
    start, last_size, end = 1, -1, 1
    for position in range(count):
        node = order[position]
        begin, size = 1 + first[node], first[node + 1] - first[node]
        if size == 0:
            break
        if size != last_size:
            start, last_size = 1, size
        slot = max(start, np.int64(codes[begin]))
        while True:
            base = slot - codes[begin]
            fits = True
            for child in range(begin, begin + size):
                if is_taken[base + codes[child]]:
                    fits = False
                    break
            if fits:
                break
            slot += 1
        start = slot if size > 1 else start
        if size == 1 and codes[begin] <= start:
            start = slot
        bases[node] = base
        for child in range(begin, begin + size):
            slots[child] = base + codes[child]
            is_taken[slots[child]] = True
            end = max(end, slots[child] + 1)
    nodes = np.full(end + widest + 1, _U(_NOBODY) << _U(_PARENT), np.uint64)
    for node in range(count):
        parent = slots[parents[node]] if node else _NOBODY
        nodes[slots[node]] = _U(parent) << _U(_PARENT) | _U(bases[node]) << _U(_BASE)
    for word in range(len(ends)):
        nodes[slots[ends[word]]] |= _U(ranks[word])
    return nodes


@njit(cache=True, nogil=True)
def normal_forms(
    points: NDArray[np.int32],
    ends: NDArray[np.int64],
    becomes: NDArray[np.int32],
    several: NDArray[np.int32],
    is_bare: bool,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Normal forms: code points, ends, and which texts hold an awkward character (these are empty here).

    becomes, several: `dictionary.Characters`; is_bare: leave out all white space.
    """
    found = np.empty(LONGEST_EXPANSION * len(points), np.int32)
    found_ends = np.empty(len(ends), np.int64)
    awkward = np.zeros(len(ends), np.bool_)
    start = at = 0
    for text in range(len(ends)):
        first = at
        is_spaced = False
        for position in range(start, ends[text]):
            point = becomes[points[position]]
            if point >= 0:
                if is_spaced:
                    at = _space(found, first, at, point, is_bare)
                    is_spaced = False
                found[at] = point
                at += 1
            elif point == SPACE:
                is_spaced = True
            elif point == AWKWARD:
                awkward[text] = True
                at = first
                break
            elif point != GONE:
                place = SEVERAL - point
                if is_spaced:
                    at = _space(found, first, at, several[place + 1], is_bare)
                    is_spaced = False
                for other in range(place + 1, place + 1 + several[place]):
                    found[at] = several[other]
                    at += 1
        found_ends[text] = at
        start = ends[text]
    return found[:at], found_ends, awkward


@njit(inline="always")
def _space(found: NDArray[np.int32], first: int, at: int, behind: int, is_bare: bool) -> int:
    """Write the space before a character, where there is one, and return the next place."""
    if at == first or is_bare or (_is_han(found[at - 1]) and _is_han(behind)):
        return at
    if _is_kana(found[at - 1]) or _is_kana(behind):
        return at
    found[at] = 32
    return at + 1


@njit(inline="always")
def _is_han(point: int) -> bool:
    """As `normalise.HAN`."""
    return (
        0x4E00 <= point <= 0x9FFF
        or 0x3400 <= point <= 0x4DBF
        or 0x20000 <= point <= 0x3FFFF
        or point == 0x3005
        or point == 0x3007
    )


@njit(inline="always")
def _is_kana(point: int) -> bool:
    """As `normalise.KANA`. (Marks of voice are awkward.)"""
    return point >= 0x3041 and (
        point <= 0x3096
        or 0x309D <= point <= 0x309F
        or 0x30A1 <= point <= 0x30FA
        or 0x30FC <= point <= 0x30FF
        or 0x31F0 <= point <= 0x31FF
        or 0x1AFF0 <= point <= 0x1B16F
    )


@njit(cache=True, nogil=True)
def words(
    points: NDArray[np.int32],
    ends: NDArray[np.int64],
    dictionary: Any,
    min_length: int,
    left_out: NDArray[np.uint64],
    weighting: int,
    known: NDArray[np.uint64],
    unknown: int,
    top: int,
    levels: int,
    size: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Words of normalised texts: digests, uint64 (m, size); how many each text has, int64 (n,); and their
    weights, int64 (m,), or (0,) if IN_ORDER.

    left_out: digests of stop words; known, unknown:
    weights by digest as a `hash_table`, and of other words; top: 0 for all words; levels: 0 for plain
    weights.
    """
    count = len(ends)
    longest = start = 0
    for text in range(count):
        longest = max(longest, ends[text] - start)
        start = ends[text]
    room = len(points)
    digests = np.empty((room, size), np.uint64)
    weights = np.empty(room if weighting != IN_ORDER else 0, np.int64)
    counts = np.empty(count, np.int64)
    tokens = np.empty((longest, 2), np.int64)
    scratch = _Scratch(
        tokens,
        np.empty(longest + 1, np.uint16),
        np.empty((longest, dictionary.longest), np.uint16),
        np.empty(longest, np.uint8),
        np.empty((longest, 3), np.int32),
        np.empty(longest + 1, np.float64),
        np.empty(longest, np.int32),
        np.empty((longest, 4), np.uint8),
    )
    slots = np.zeros(256, np.int32)
    block = np.zeros(longest // 2 + 3, np.uint64)  # four bytes of a character at most
    filled = start = 0
    for text in range(count):
        end = ends[text]
        found = _cut(points[start:end], start, dictionary, scratch)
        first = filled
        kept = 0
        for token in range(found):
            begin, behind = tokens[token, 0], tokens[token, 1]
            if behind - begin < min_length:
                continue
            one, other = _digest(points, begin, behind, block)
            if len(left_out) and one in left_out:
                continue
            digests[filled, 0] = one
            if size == 2:
                digests[filled, 1] = other
            tokens[kept, 0], tokens[kept, 1] = begin, behind
            filled += 1
            kept += 1
        if weighting != IN_ORDER:
            while len(slots) < 2 * kept:
                slots = np.zeros(2 * len(slots), np.int32)
            filled = first + _count(digests[first:filled], weights[first:filled], tokens, slots)
            if weighting == CAPPED:
                distinct = filled - first
                for feature in range(first, filled):
                    weights[feature] = _capped(weights[feature], distinct)
            elif weighting == SATURATED:
                for feature in range(first, filled):
                    weights[feature] = _saturated(weights[feature], kept)
            elif weighting == BY_TABLE:
                filled = first + _weigh(digests[first:filled], weights[first:filled], tokens, known, unknown)
            if top and filled - first > top:
                _keep_heaviest(_Words(points, digests[first:filled], weights[first:filled], tokens), top)
                filled = first + top
            if levels:
                _level(weights[first:filled], levels)
        counts[text] = filled - first
        start = end
    return digests[:filled], counts, weights[: filled if weighting != IN_ORDER else 0]


class _Scratch(NamedTuple):
    """What is known of each character of a text.

    tokens: of the text, from-to; codes: its code, 0 if it is in no word of jieba's; ranks: by length those of
    the words that begin there; lengths: up to which length the dictionary has a word or its beginning;
    under_way: place, slot and base of beginnings that may go on; best: log probability of the best way to the
    end of the run; next_word: where it goes on; came_from: by state the most probable one before it.
    """

    tokens: NDArray[np.int64]
    codes: NDArray[np.uint16]
    ranks: NDArray[np.uint16]
    lengths: NDArray[np.uint8]
    under_way: NDArray[np.int32]
    best: NDArray[np.float64]
    next_word: NDArray[np.int32]
    came_from: NDArray[np.uint8]


class _Words(NamedTuple):
    """The words of a text: digests, weights and tokens of each, which are from-to among the points."""

    points: NDArray[np.int32]
    digests: NDArray[np.uint64]
    weights: NDArray[np.int64]
    tokens: NDArray[np.int64]


@njit
def _cut(text: NDArray[np.int32], offset: int, dictionary: Any, scratch: Any) -> int:
    """Write where the tokens of a text are, and return how many it has."""
    kinds, tokens = dictionary.kinds, scratch.tokens
    _look_up(text, dictionary, scratch)
    found = 0
    end = len(text)
    at = 0
    while at < end:
        kind = kinds[text[at]]
        begin = at
        at += 1
        if kind >= HAN:
            while at < end and kinds[text[at]] >= HAN:
                at += 1
            found = _segment(text, begin, at, offset, dictionary, scratch, found)
        elif kind == ALONE:
            tokens[found, 0], tokens[found, 1] = offset + begin, offset + at
            found += 1
        elif kind == WORD:
            while at < end and kinds[text[at]] == WORD:
                at += 1
            tokens[found, 0], tokens[found, 1] = offset + begin, offset + at
            found += 1
    return found


@njit
def _look_up(text: NDArray[np.int32], dictionary: Any, scratch: Any) -> None:
    """Find the words of the dictionary at every character, one more character at a time: without branches, so
    that many reads of the trie are under way at once."""
    nodes, codes, ranks, lengths = dictionary.nodes, scratch.codes, scratch.ranks, scratch.lengths
    under_way = scratch.under_way
    for at in range(len(text)):
        kind = dictionary.kinds[text[at]]
        codes[at] = kind - HAN if kind >= HAN else 0
    codes[len(text)] = 0
    count = 0
    for at in range(len(text)):
        node = nodes[codes[at]]
        is_there = node >> _U(_PARENT) == _U(0)  # the root
        ranks[at, 0] = node & _U(_RANKS)
        lengths[at] = is_there
        under_way[count, 0], under_way[count, 1] = at, codes[at]
        under_way[count, 2] = node >> _U(_BASE) & _U(_NOBODY)
        count += is_there
    length = 1
    while count:
        left = 0
        for place in range(count):
            at = under_way[place, 0]
            child = under_way[place, 2] + np.int32(codes[at + length])
            node = nodes[child]
            is_there = node >> _U(_PARENT) == _U(under_way[place, 1])
            ranks[at, length % ranks.shape[1]] = node & _U(_RANKS)
            lengths[at] += is_there
            under_way[left, 0], under_way[left, 1] = at, child
            under_way[left, 2] = node >> _U(_BASE) & _U(_NOBODY)
            left += is_there
        count = left
        length += 1


@njit(inline="always")
def _segment(
    text: NDArray[np.int32], begin: int, end: int, offset: int, dictionary: Any, scratch: Any, found: int
) -> int:
    """jieba's words of a run of Han: the most probable sequence of words of its dictionary, in which runs of
    single characters are cut by its hidden Markov model."""
    _best_ways(begin, end, dictionary, scratch)
    next_word, tokens = scratch.next_word, scratch.tokens
    singles = at = begin
    while singles < end:
        behind = next_word[at] if at < end else at
        if at < end and behind == at + 1:
            at = behind
            continue
        if singles < at:
            found = _join(text, singles, at, offset, dictionary, scratch, found)
        if at < end:
            tokens[found, 0], tokens[found, 1] = offset + at, offset + behind
            found += 1
        singles = at = behind
    return found


@njit(inline="always")
def _best_ways(begin: int, end: int, dictionary: Any, scratch: Any) -> None:
    ranks, lengths, best, next_word = scratch.ranks, scratch.lengths, scratch.best, scratch.next_word
    costs = dictionary.costs
    best[end] = 0.0
    for at in range(end - 1, begin - 1, -1):
        most = -np.inf
        behind = at + 1
        for length in range(lengths[at]):
            to_end = costs[ranks[at, length]] + best[at + length + 1]
            behind = at + length + 1 if to_end >= most else behind
            most = to_end if to_end >= most else most
        is_unknown = most == -np.inf
        best[at] = dictionary.unknown + best[at + 1] if is_unknown else most
        next_word[at] = at + 1 if is_unknown else behind


@njit(inline="always")
def _join(
    text: NDArray[np.int32], begin: int, end: int, offset: int, dictionary: Any, scratch: Any, found: int
) -> int:
    """The words of a run of single characters: by the model, unless it is a word of the dictionary."""
    length, tokens = end - begin, scratch.tokens
    is_word = scratch.lengths[begin] >= length and scratch.ranks[begin, length - 1] != 0
    if length == 1 or is_word:
        for at in range(begin, end):
            tokens[found, 0], tokens[found, 1] = offset + at, offset + at + 1
            found += 1
    else:
        # States are known from the end on, so words are found last first, and turned round afterwards.
        came_from = scratch.came_from
        state = _model(text, begin, end, dictionary, came_from)
        first = found
        behind = end
        for at in range(end - 1, begin, -1):
            state = came_from[at, state]
            if state in (_E, _S):
                tokens[found, 0], tokens[found, 1] = offset + at, offset + behind
                found += 1
                behind = at
        tokens[found, 0], tokens[found, 1] = offset + begin, offset + behind
        found += 1
        low, high = first, found - 1
        while low < high:
            for side in range(2):
                tokens[low, side], tokens[high, side] = tokens[high, side], tokens[low, side]
            low += 1
            high -= 1
    return found


@njit(inline="always")
def _model(
    text: NDArray[np.int32], begin: int, end: int, dictionary: Any, came_from: NDArray[np.uint8]
) -> int:
    """The last of the most probable states (Viterbi); `came_from` gets those before it. Of equal ones jieba
    takes the later letter of B, E, M, S."""
    emissions, transitions = dictionary.emissions, dictionary.transitions
    eb, sb, be, me = transitions[_E, _B], transitions[_S, _B], transitions[_B, _E], transitions[_M, _E]
    bm, mm, es, ss = transitions[_B, _M], transitions[_M, _M], transitions[_E, _S], transitions[_S, _S]
    first = text[begin] - _FIRST_HAN
    b, e = dictionary.starts[_B] + emissions[first, _B], dictionary.starts[_E] + emissions[first, _E]
    m, s = dictionary.starts[_M] + emissions[first, _M], dictionary.starts[_S] + emissions[first, _S]
    for at in range(begin + 1, end):
        here = text[at] - _FIRST_HAN
        on_b, on_e = emissions[here, _B], emissions[here, _E]
        on_m, on_s = emissions[here, _M], emissions[here, _S]
        e_b, s_b = e + eb + on_b, s + sb + on_b
        b_e, m_e = b + be + on_e, m + me + on_e
        b_m, m_m = b + bm + on_m, m + mm + on_m
        e_s, s_s = e + es + on_s, s + ss + on_s
        came_from[at, _B] = _S if s_b >= e_b else _E
        came_from[at, _E] = _M if m_e >= b_e else _B
        came_from[at, _M] = _M if m_m >= b_m else _B
        came_from[at, _S] = _S if s_s >= e_s else _E
        b = s_b if s_b >= e_b else e_b
        e = m_e if m_e >= b_e else b_e
        m = m_m if m_m >= b_m else b_m
        s = s_s if s_s >= e_s else e_s
    return _S if s >= e else _E


@njit
def _digest(
    points: NDArray[np.int32], start: int, end: int, block: NDArray[np.uint64]
) -> tuple[np.uint64, np.uint64]:
    """MurmurHash3 x64 128, seed 0, of characters in UTF-8."""
    block[0] = 0
    size = 0
    for at in range(start, end):
        point = np.uint64(points[at])
        if point < 0x80:
            code, length = point, 1
        elif point < 0x800:
            code, length = _U(0x80C0) | point >> _U(6) | (point & _U(63)) << _U(8), 2
        elif point < 0x10000:
            code = _U(0x8080E0) | point >> _U(12) | (point >> _U(6) & _U(63)) << _U(8)
            code, length = code | (point & _U(63)) << _U(16), 3
        else:
            code = _U(0x808080F0) | point >> _U(18) | (point >> _U(12) & _U(63)) << _U(8)
            code, length = code | (point >> _U(6) & _U(63)) << _U(16) | (point & _U(63)) << _U(24), 4
        word, shift = size >> 3, 8 * (size & 7)
        block[word] |= code << _U(shift)
        if shift + 8 * length >= 64:
            block[word + 1] = code >> _U(64 - shift) if shift else _U(0)
        size += length
    if size & 15 <= 8:
        block[(size >> 4) * 2 + 1] = 0
    one, other = _U(0), _U(0)
    for place in range(0, size >> 4 << 1, 2):
        one ^= _turned(block[place] * _C1, 31) * _C2
        one = (_turned(one, 27) + other) * _U(5) + _U(0x52DCE729)
        other ^= _turned(block[place + 1] * _C2, 33) * _C1
        other = (_turned(other, 31) + one) * _U(5) + _U(0x38495AB5)
    place = size >> 4 << 1
    if size & 15:
        other ^= _turned(block[place + 1] * _C2, 33) * _C1
        one ^= _turned(block[place] * _C1, 31) * _C2
    one ^= _U(size)
    other ^= _U(size)
    one += other
    other += one
    one, other = _mixed(one), _mixed(other)
    one += other
    return one, other + one


@njit(inline="always")
def _turned(word: np.uint64, by: int) -> np.uint64:
    return word << _U(by) | word >> _U(64 - by)


@njit(inline="always")
def _mixed(word: np.uint64) -> np.uint64:
    """As `hashing.fmix64`."""
    word ^= word >> _U(33)
    word *= _U(0xFF51AFD7ED558CCD)
    word ^= word >> _U(33)
    word *= _U(0xC4CEB9FE1A85EC53)
    return word ^ word >> _U(33)


@njit
def _count(
    digests: NDArray[np.uint64],
    weights: NDArray[np.int64],
    tokens: NDArray[np.int64],
    slots: NDArray[np.int32],
) -> int:
    """Keep each digest once, with its count and first token, and return how many are left.

    slots: int32 zeros, a power of two of them, at least twice as many as digests; zeros again at the end.
    Words with the same 64 bits count as one.
    """
    used = 1
    while used < 2 * len(digests):
        used *= 2
    mask = _U(used - 1)
    found = 0
    for feature in range(len(digests)):
        digest = digests[feature, 0]
        slot = digest & mask
        while slots[slot] and digests[slots[slot] - 1, 0] != digest:
            slot = (slot + _U(1)) & mask
        if slots[slot]:
            weights[slots[slot] - 1] += 1
        else:
            for part in range(digests.shape[1]):
                digests[found, part] = digests[feature, part]
            tokens[found, 0], tokens[found, 1] = tokens[feature, 0], tokens[feature, 1]
            weights[found] = 1
            found += 1
            slots[slot] = found
    slots[:used] = 0
    return found


@njit
def _weigh(
    digests: NDArray[np.uint64],
    weights: NDArray[np.int64],
    tokens: NDArray[np.int64],
    known: NDArray[np.uint64],
    unknown: int,
) -> int:
    """Multiply counts by the table's weights, drop words of weight 0, and return how many are left."""
    mask = _U(len(known) - 1)
    found = 0
    for feature in range(len(digests)):
        digest = digests[feature, 0]
        slot = digest & mask
        while known[slot, 0] and known[slot, 0] != digest:
            slot = (slot + _U(1)) & mask
        weight = weights[feature] * (np.int64(known[slot, 1]) if known[slot, 0] else unknown)
        if weight:
            for part in range(digests.shape[1]):
                digests[found, part] = digests[feature, part]
            tokens[found, 0], tokens[found, 1] = tokens[feature, 0], tokens[feature, 1]
            weights[found] = weight
            found += 1
    return found


@njit(cache=True, nogil=True)
def hash_table(digests: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Digests and their values for look-ups by `words`: uint64 (slots, 2). A digest of 0 is lost."""
    slots = 4
    while slots < 2 * len(digests):
        slots *= 2
    table = np.zeros((slots, 2), np.uint64)
    mask = _U(slots - 1)
    for position in range(len(digests)):
        slot = digests[position] & mask
        while table[slot, 0] and table[slot, 0] != digests[position]:
            slot = (slot + _U(1)) & mask
        table[slot, 0], table[slot, 1] = digests[position], _U(values[position])
    return table


@njit
def _keep_heaviest(words: Any, top: int) -> None:
    """Move the `top` heaviest to the front, of equal ones those whose tokens sort first: a heap with the
    lightest as its root."""
    for root in range(top // 2 - 1, -1, -1):
        _sink(words, root, top)
    for feature in range(top, len(words.weights)):
        if _is_lighter(words, 0, feature):
            _swap(words, 0, feature)
            _sink(words, 0, top)


@njit
def _sink(words: Any, place: int, end: int) -> None:
    while 2 * place + 1 < end:
        child = 2 * place + 1
        if child + 1 < end and _is_lighter(words, child + 1, child):
            child += 1
        if not _is_lighter(words, child, place):
            return
        _swap(words, child, place)
        place = child


@njit
def _swap(words: Any, one: int, other: int) -> None:
    digests, weights, tokens = words.digests, words.weights, words.tokens
    for part in range(digests.shape[1]):
        digests[one, part], digests[other, part] = digests[other, part], digests[one, part]
    for side in range(2):
        tokens[one, side], tokens[other, side] = tokens[other, side], tokens[one, side]
    weights[one], weights[other] = weights[other], weights[one]


@njit
def _is_lighter(words: Any, one: int, other: int) -> bool:
    """By weight; of equal ones the token that comes later by its code points, which is by its bytes."""
    points, weights, tokens = words.points, words.weights, words.tokens
    if weights[one] != weights[other]:
        return weights[one] < weights[other]
    start, end = tokens[one, 0], tokens[one, 1]
    against, behind = tokens[other, 0], tokens[other, 1]
    for at in range(min(end - start, behind - against)):
        if points[start + at] != points[against + at]:
            return points[start + at] > points[against + at]
    return end - start > behind - against


@njit
def _level(weights: NDArray[np.int64], levels: int) -> None:
    """As integers, up to `levels` for the heaviest."""
    heaviest = 0
    for weight in weights:
        heaviest = max(heaviest, weight)
    for feature in range(len(weights)):
        weights[feature] = -(-levels * weights[feature] // heaviest)
