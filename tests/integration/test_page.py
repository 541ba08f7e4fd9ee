"""The service's page, in a browser, over a running service."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

import simhbase
from simhbase import Document, Profile
from tests.browser import Tab, tab
from tests.service import Service, serving

pytestmark = pytest.mark.browser

CHINESE = (
    "今天上午，北京市气象台发布大风蓝色预警信号，预计今天夜间到明天白天，本市大部分地区有五级左右偏北风，阵风七级左右，"
    "山区阵风可达八级以上，请注意防范。气象专家提醒，大风天气里行人应当远离广告牌和临时搭建物，驾驶人员应当减速慢行。"
)
ENGLISH = (
    "The council has decided to build a new bridge across the river, the mayor said on Monday. Work on the "
    "piers will begin in spring, and the bridge is to be open to pedestrians, cyclists and trams by the end "
    "of next year. The old bridge, which was damaged by the flood last summer, will be closed and taken down."
)
EVIL_ID = "<img src=x onerror=\"document.title='hacked'\">"
EVIL_TEXT = (
    f"{EVIL_ID} <script>document.title='hacked'</script> said the spokesman of the ministry of silly tests"
)
TURNED_ID = "abc\u202efed"
TURNED_TEXT = (
    "A document whose id has a mark in it that turns what comes behind it around, for the readers of lists."
)
LONG_ID = "https://example.org/" + "a-long-path/" * 74  # 908 characters
LONG_TEXT = (
    "A document of a crawler whose address is as long as the addresses of some shops are, with all options."
)
CROWD = "One page of a portal that everybody has copied, with the same words in each of a thousand documents."
DOCUMENTS = [
    Document("weather/1", CHINESE),
    Document("weather/2", CHINESE.replace("；", "，") + "！"),
    Document("bridge/1", ENGLISH),
    Document("bridge/2", ENGLISH.replace("Monday", "Tuesday")),
    Document("bridge/3", ENGLISH.upper()),
    Document(EVIL_ID, EVIL_TEXT),
    Document(TURNED_ID, TURNED_TEXT),
    Document(LONG_ID, LONG_TEXT),
    Document("near/long", f"{LONG_TEXT} Again."),
    *(Document(f"crowd/{number}", CROWD) for number in range(1001)),
]
TOKENS = "read reader-token-0123456789\nwrite writer-token-0123456789\n"
CONTRAST = Path(__file__).parents[1].joinpath("contrast.js").read_text("utf-8")
HANGS = 60_000  # milliseconds

Open = Callable[..., Tab]


def stored(folder: Path, documents: list[Document], profile: Profile) -> str:
    """The URL of a store with documents."""
    url = f"rocksdb:{folder}/store"
    with simhbase.open(url, create=profile) as index:
        index.add(documents)
    return url


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("page")
    with serving(stored(folder, DOCUMENTS, Profile(verify=False)), folder) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that asks for tokens, and compares by sketches."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    url = stored(folder, DOCUMENTS[:5], Profile(scheme="minhash"))
    with serving(url, folder, "--token-file", tokens) as running:
        yield running


@pytest.fixture
def at(browser: Browser) -> Iterator[Open]:
    """Opens tabs at a service."""
    with ExitStack() as tabs:
        yield lambda service, **options: tabs.enter_context(tab(browser, service.url, **options))


def search(page: Page, text: str) -> None:
    page.get_by_label("Text", exact=True).fill(text)
    page.keyboard.press("Control+Enter")


def heading(page: Page) -> str:
    found = page.get_by_role("heading", level=2).first
    found.wait_for()
    return found.inner_text()


def test_a_text_is_found_with_distance_bits_and_drawers(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    search(page, ENGLISH)
    assert heading(page).startswith("3 matches")
    first = page.get_by_role("listitem").first
    expect(first).to_contain_text("bridge/1")
    expect(first).to_contain_text("same fingerprint")
    expect(first).to_contain_text("shares all 10 drawers")
    expect(first.get_by_role("img")).to_have_accessible_name("0 bits of 64 differ; 5 of 5 blocks agree")
    third = page.get_by_role("listitem").nth(2)
    expect(third).to_contain_text(re.compile(r"\d bits? apart"))
    expect(third).to_contain_text(re.compile(r"shares \d of 10 drawers"))
    page.get_by_text("What are drawers?").click()
    expect(page.get_by_text("The store files each document in 10 drawers")).to_be_visible()
    opened.keep("find")


def test_what_was_read_is_told_when_it_is_asked_for(at: Open, service: Service) -> None:
    page = at(service).open()
    search(page, CHINESE)
    page.get_by_role("main").get_by_text("What was read for this").click()
    drawers = page.get_by_role("region", name="Drawers")
    expect(drawers.get_by_role("row")).to_have_count(11)
    expect(page.get_by_role("region", name="Candidates")).to_contain_text("match")


def test_a_file_is_looked_up_wherever_it_is_dropped(at: Open, service: Service) -> None:
    page = at(service).open()
    drop(page, "h1", "bridge.txt", ENGLISH)
    expect(page.get_by_role("main").get_by_text(f"bridge.txt, {len(ENGLISH)} characters")).to_be_visible()
    assert heading(page).startswith("3 matches")


def test_a_text_that_is_not_stored_has_no_match(at: Open, service: Service) -> None:
    page = at(service).open()
    search(page, "Something else altogether, of which nobody here has ever heard a single word before today.")
    assert heading(page).startswith("Nothing near it is stored")


def test_a_text_without_features_is_said_to_have_no_fingerprint(at: Open, service: Service) -> None:
    page = at(service).open()
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("main").get_by_text("No text yet")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    for text, features in (("？！", 0), ("one", 1)):
        search(page, text)
        expect(page.get_by_role("main").get_by_text("This text has no fingerprint")).to_be_visible()
        expect(page.get_by_role("main").get_by_text(f"the text has {features} distinct")).to_be_visible()


def test_a_list_that_a_limit_has_cut_says_so(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    search(page, CROWD)
    assert heading(page).startswith("1,000 matches")
    assert page.locator(".match").count() == 100
    page.get_by_role("button", name="Show 900 other matches").click()
    assert page.locator(".match").count() == 1000
    expect(page.locator(".match:nth-child(101) a")).to_be_focused()
    expect(page.get_by_role("main").get_by_text("There may be more", exact=True)).to_be_visible()


def test_two_texts_are_marked_where_their_words_differ(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open("#/compare")
    page.get_by_label("One text", exact=True).fill(CHINESE)
    page.get_by_label("Another text", exact=True).fill(CHINESE.replace("蓝色", "黄色") + "（记者 王小明）")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("main").get_by_text("bits apart, Jaccard similarity 0.")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("of the left text is in the right, 0.")).to_be_visible()
    one, other = (page.get_by_role("region", name=f"{name} text, marked") for name in ("One", "Another"))
    assert one.locator("del").all_inner_texts() == ["蓝色", ""]
    assert other.locator("ins").all_inner_texts() == ["黄色", "记者 王小明"]
    assert one.inner_text() == CHINESE
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("n")
    page.keyboard.press("n")
    expect(other.locator(".current")).to_have_text("记者 王小明")
    page.keyboard.press("p")
    expect(one.locator(".current")).to_have_text("蓝色")
    opened.keep("compare")


def test_texts_that_differ_in_punctuation_alone_have_the_same_words(at: Open, service: Service) -> None:
    page = at(service).open("#/compare")
    page.get_by_label("One text", exact=True).fill(ENGLISH)
    page.get_by_label("Another text", exact=True).fill(ENGLISH.replace(",", ";"))
    page.keyboard.press("Control+Enter")
    assert heading(page) == "The same words in the same order, and other punctuation"
    expect(page.get_by_role("button", name="Next")).to_have_count(0)


def test_a_match_is_compared_with_its_own_file(at: Open, service: Service) -> None:
    page = at(service).open()
    search(page, ENGLISH)
    page.get_by_role("link", name="bridge/2").wait_for()
    drop(page, "li:nth-child(3)", "bridge.txt", ENGLISH.replace("Monday", "Tuesday"))
    marked = page.get_by_role("region", name="Text of bridge/2, marked")
    marked.wait_for()
    assert marked.locator("ins").all_inner_texts() == ["Tuesday"]
    page.go_back()
    expect(page.get_by_role("link", name="bridge/2")).to_be_visible()
    page.get_by_role("button", name="Compare with the text of bridge/2").click()
    expect(page.get_by_label("Text of bridge/2", exact=True)).to_be_focused()
    expect(page.get_by_label("Text that was looked up", exact=True)).to_have_value(ENGLISH)


def test_a_text_that_is_pasted_for_a_match_is_compared_at_once(at: Open, service: Service) -> None:
    page = at(service).open()
    search(page, ENGLISH)
    page.get_by_role("button", name="Compare with the text of bridge/2").click()
    paste(page, ENGLISH.replace("Monday", "Tuesday"))
    marked = page.get_by_role("region", name="Text of bridge/2, marked")
    marked.wait_for()
    assert marked.locator("ins").all_inner_texts() == ["Tuesday"]


def paste(page: Page, text: str) -> None:
    """Pastes a text where the focus is."""
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")


def test_files_that_are_opened_together_are_at_hand_for_comparisons(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    texts = {"bridge.txt": ENGLISH.upper(), "2": ENGLISH.replace("Monday", "Tuesday")}
    chosen = [
        {"name": name, "mimeType": "text/plain", "buffer": text.encode()} for name, text in texts.items()
    ]
    page.get_by_label("File for: Text").set_input_files(chosen)
    assert heading(page).startswith("3 matches")
    expect(page.get_by_label("Text", exact=True)).to_have_value(ENGLISH.upper())
    expect(page.get_by_role("button", name="Compare with the text of bridge/1")).to_be_visible()
    page.get_by_role("button", name="Compare with 2", exact=True).click()
    marked = page.get_by_role("region", name="Text of bridge/2, marked")
    marked.wait_for()
    expect(page.get_by_label("Text of bridge/2", exact=True)).to_have_value(texts["2"])
    page.go_back()
    page.get_by_label("File for: Text").set_input_files(chosen[1])  # looked up itself
    expect(page.get_by_role("button", name="Compare with the text of bridge/2")).to_be_visible()


def drop(page: Page, selector: str, name: str, text: str) -> None:
    """Drops a file on an element."""
    data = page.evaluate_handle(
        """([name, text]) => {
          const data = new DataTransfer();
          data.items.add(new File([text], name));
          return data;
        }""",
        [name, text],
    )
    page.dispatch_event(selector, "drop", {"dataTransfer": data})


def test_files_are_read_in_their_encodings_and_pages_without_their_markup(
    at: Open, service: Service, tmp_path: Path
) -> None:
    opened = at(service)
    page = opened.open()
    chosen = page.get_by_label("File for: Text")
    old, html, binary = (tmp_path / name for name in ("old.txt", "page.html", "picture.txt"))
    old.write_bytes(CHINESE.encode("gb18030"))
    chosen.set_input_files(old)
    expect(page.get_by_label("Text", exact=True)).to_have_value(CHINESE)
    assert heading(page).startswith("2 matches")
    html.write_text(
        f"<nav>Home</nav><script>document.title='hacked'</script>{EVIL_ID}"
        f"<article><h1>Weather</h1><p>{CHINESE}</p></article>"
    )
    chosen.set_input_files(html)
    expect(page.get_by_label("Text", exact=True)).to_have_value(f"Weather\n{CHINESE}")
    assert page.title() == "Find · simhbase"
    chosen.set_input_files({"name": "book.txt", "mimeType": "text/plain", "buffer": b"x" * (5 << 20)})
    expect(page.get_by_role("main").get_by_text("book.txt has 5.0 MiB: at most 4 fit here.")).to_be_visible()
    # Read by a parser that runs nothing, and whose documents have the policy of the page, too.
    assert all("violates the following Content Security Policy" in error for error in opened.errors)
    opened.errors.clear()
    binary.write_bytes(b"\x89PNG\x00\x01\xff")
    chosen.set_input_files(binary)
    expect(
        page.get_by_role("main").get_by_text("picture.txt is no text in UTF-8, UTF-16 or GB18030.")
    ).to_be_visible()


def test_a_person_walks_among_near_duplicates_and_back(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open("#/document")
    page.get_by_label("Id of a document").fill("bridge/1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_text("2 documents are near it")).to_be_visible()
    page.get_by_role("link", name="bridge/2").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("bridge/2")
    page.get_by_role("listitem").filter(has_text="apart").get_by_role("link", name="bridge/3").click()
    way = page.get_by_role("navigation", name="The way here")
    expect(way.get_by_role("link")).to_have_text(["bridge/1", "bridge/2", "bridge/3"])
    expect(page.get_by_role("main").get_by_text("on your way").first).to_be_visible()
    opened.keep("browse")
    way.get_by_role("link", name="bridge/1").click()
    expect(way.get_by_role("link")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", level=2)).to_contain_text("bridge/3")


def test_browsing_begins_with_what_is_stored(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    page.get_by_role("link", name="Browse").click()
    listed = page.locator("ol.stored li")
    expect(listed).to_have_count(30)
    page.get_by_role("button", name="Show more").click()
    expect(listed).to_have_count(60)
    opened.keep("stored")
    listed.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("fingerprint")
    page.get_by_role("link", name="Browse").click()
    expect(listed).to_have_count(30)


def test_groups_are_listed_largest_first(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("3 groups")
    expect(
        page.get_by_text("1,010 documents were compared: 3 groups, with 1,003 documents beside")
    ).to_be_visible()
    expect(page.get_by_text("what was written since then may be missing")).to_be_visible()
    found = page.locator("ol.matches > li")
    expect(found).to_have_count(3)
    expect(found.first).to_contain_text("1,001 documents")
    expect(found.first.locator("ol.members li")).to_have_count(3)
    found.first.get_by_role("button", name="Show 997 others").click()
    expect(found.first.locator("ol.members li")).to_have_count(1000)
    assert_readable(opened, "groups")
    page.get_by_label("Documents of a group, at least").fill("3")
    page.get_by_role("button", name="Group").click()
    expect(found).to_have_count(2)
    expect(found.last).to_contain_text("bridge/1")
    found.last.get_by_role("link", name="bridge/2").click()
    expect(page.get_by_role("heading", level=2)).to_contain_text("bridge/2")


def test_an_empty_store_says_so_and_one_page_is_all(at: Open, tmp_path: Path) -> None:
    with serving(stored(tmp_path, [], Profile()), tmp_path) as service:
        page = at(service).open("#/document")
        expect(page.get_by_role("main").get_by_text("No document is stored yet")).to_be_visible()
        service.post("/v1/documents", {"id": "one", "text": ENGLISH})
        page.reload()
        expect(page.locator("ol.stored li")).to_have_text(["one"])
        expect(page.get_by_role("button", name="Show more")).to_have_count(0)
        page.get_by_role("link", name="Groups").click()
        expect(page.get_by_text("1 document was compared.")).to_be_visible()


def test_a_layout_that_flips_bits_has_the_drawers_of_its_blocks(at: Open, tmp_path: Path) -> None:
    url = stored(tmp_path, DOCUMENTS[:3], Profile(verify=False, layout="2x1p1"))
    with serving(url, tmp_path) as service:
        page = at(service).open()
        search(page, ENGLISH)
        first = page.get_by_role("listitem").first
        expect(first).to_contain_text("shares all 2 drawers")
        expect(first.get_by_role("img")).to_have_accessible_name("0 bits of 64 differ; 2 of 2 blocks agree")


def test_a_phone_shows_the_first_match_without_scrolling(at: Open, service: Service) -> None:
    opened = at(service, viewport={"width": 390, "height": 844})
    page = opened.open()
    for text in (ENGLISH, CHINESE, LONG_TEXT * 20 + ENGLISH * 3):
        search(page, text)
        heading(page)
        assert page.evaluate("scrollY") == 0
        assert page.locator("#state").bounding_box()["height"] < 32
        if text is not ENGLISH and text is not CHINESE:
            continue
        match = page.get_by_role("listitem").first.bounding_box()
        assert match["y"] + match["height"] < 844, match
        opened.keep("phone-first-match")


def test_a_group_is_drawn(at: Open, browser: Browser, tmp_path: Path) -> None:
    """Of a chain, in which each document is near the next ones only."""
    words = [f"word{number}" for number in range(400)]
    chain = [Document(f"chain/{step}", " ".join(words[4 * step : 4 * step + 300])) for step in range(12)]
    alone = Document("alone", ENGLISH)
    with serving(stored(tmp_path, [*chain, alone], Profile()), tmp_path) as service:
        near = {each.id: {match["id"] for match in neighbours(service, each.id)} for each in chain}
        assert 0 < len(near["chain/0"]) < 11  # not each is near every other
        reached, pairs = group_of("chain/0", near)
        opened = at(service)
        page = opened.open("#/document/chain%2F0")
        picture = page.locator("svg.group")
        expect(picture.locator("a")).to_have_count(len(reached))
        expect(picture.locator("line")).to_have_count(pairs)
        assert set(picture.locator("a title").all_text_contents()) == reached
        possible = len(reached) * (len(reached) - 1) // 2
        said = f"A group of {len(reached)} documents: {pairs} of {possible} pairs are near each other"
        expect(picture).to_have_accessible_name(said)
        opened.keep("group")
        further = page.locator(".further a").first
        name = further.inner_text()
        picture.get_by_text(str(len(near["chain/0"]) + 1), exact=True).click()
        expect(page.get_by_role("heading", level=2)).to_contain_text(name)
        opened.open("#/document/alone")
        expect(page.get_by_role("main").get_by_text("No other document is near it")).to_be_visible()
        expect(picture).to_have_count(0)


def neighbours(service: Service, name: str) -> list[dict[str, Any]]:
    answer = service.get(f"/v1/documents/{quote(name, safe='')}/neighbours")
    found: list[dict[str, Any]] = answer.json["matches"]
    return found


def group_of(name: str, near: dict[str, set[str]]) -> tuple[set[str], int]:
    """The documents that are reached from one by their neighbours, and the number of near pairs of them."""
    reached, fresh = {name}, {name}
    while fresh:
        fresh = set().union(*(near[each] for each in fresh)) - reached
        reached |= fresh
    return reached, sum(len(near[each] & reached) for each in reached) // 2


def test_of_a_large_group_the_nearest_are_drawn(at: Open, service: Service) -> None:
    opened = at(service, viewport={"width": 390, "height": 740})
    page = opened.open("#/document/crowd%2F7")
    expect(page.locator("svg.group a")).to_have_count(24)
    expect(page.get_by_text("The nearest 24 documents of its group")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    opened.keep("phone-group")


def test_an_id_that_is_not_stored_is_said_to_be_so(at: Open, service: Service) -> None:
    page = at(service).open("#/document/nobody%2Fhere")
    expect(page.get_by_role("alert")).to_contain_text("No document is stored under this id")
    page.get_by_role("alert").evaluate("element => element.remove()")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("alert")).to_contain_text("No document is stored under this id")
    page.get_by_label("Id of a document").fill("..")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main").get_by_text("No browser can ask for this id")).to_be_visible()


def test_the_store_shows_its_counts_profile_and_state(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open("#/store")
    expect(page.get_by_role("main").get_by_text("The service and its store answer.")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("1,010")).to_be_visible()
    expect(page.get_by_role("main").get_by_text("counted")).to_be_visible()
    expect(page.get_by_role("main").get_by_text(service.get("/v1/status").json["profile"])).to_be_visible()
    expect(page.locator("#state")).to_have_text("ready")
    opened.keep("store")


def test_markup_in_texts_and_ids_stays_text(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    search(page, EVIL_TEXT)
    page.get_by_role("link", name=EVIL_ID).click()
    expect(page.get_by_role("heading", level=2)).to_contain_text(EVIL_ID)
    opened.open("#/compare")
    page.get_by_label("One text", exact=True).fill(EVIL_TEXT)
    page.get_by_label("Another text", exact=True).fill(f"{EVIL_TEXT} <svg onload=alert(1)> other")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="Another text, marked")).to_contain_text(
        "<svg onload=alert(1)> other"
    )
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "Compare · simhbase"


def test_marks_that_have_an_id_look_like_another_are_shown(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    search(page, TURNED_TEXT)
    page.get_by_role("link", name=TURNED_ID.replace("\u202e", r"\u202e"), exact=True).click()
    expect(page.get_by_role("heading", level=2)).to_contain_text(r"abc\u202efed")


def test_long_ids_are_cut_in_the_middle(at: Open, service: Service) -> None:
    opened = at(service, viewport={"width": 390, "height": 740})
    page = opened.open()
    search(page, LONG_TEXT)
    cut = f"{LONG_ID[:50]}…{LONG_ID[-49:]}"
    link = page.get_by_role("link", name=cut, exact=True)
    assert link.get_attribute("title") == LONG_ID
    page.get_by_text("What was read for this").click()
    expect(page.get_by_role("region", name="Candidates").get_by_title(LONG_ID)).to_have_text(cut)
    opened.keep("long-id-found")
    page.get_by_role("button", name=f"Compare with the text of {cut}").click()
    expect(page.get_by_label(f"Text of {cut}", exact=True)).to_be_focused()
    page.go_back()
    link.click()
    heading_ = page.get_by_role("heading", level=2)
    expect(heading_).to_contain_text(cut)
    opened.open("#/document/bridge%2F1")
    way = page.get_by_role("navigation", name="The way here")
    expect(way.get_by_role("link")).to_have_text([cut, "bridge/1"])
    opened.keep("long-id")
    assert LONG_ID not in page.locator("body").inner_text()


def test_a_service_with_tokens_asks_once_and_refuses_wrong_ones(at: Open, guarded: Service) -> None:
    opened = at(guarded)
    page = opened.open()
    search(page, ENGLISH)
    expect(page.get_by_text("This service asks for a token.")).to_be_visible()
    token = page.get_by_label("Token", exact=True)
    expect(token).to_be_focused()
    opened.keep("token")
    for wrong in ("wrong-token-0123456789", "错的"):
        token.fill(wrong)
        page.keyboard.press("Enter")
        expect(page.get_by_text("The service refused this token")).to_be_visible()
        expect(token).to_have_value("")
    token.fill("reader-token-0123456789")
    page.keyboard.press("Enter")
    assert heading(page).startswith("3 matches")
    expect(page.get_by_role("listitem").nth(2)).to_contain_text(re.compile(r"0\.\d\d similar"))
    assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
    page.reload()
    search(page, CHINESE)
    assert heading(page).startswith("2 matches")
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Store").click()
    page.get_by_role("button", name="Forget the token").click()
    assert page.evaluate("sessionStorage.length") == 0
    for _ in range(2):
        page.wait_for_event("response", lambda response: response.url.endswith("/readyz"))
    expect(page.locator("#token")).to_be_hidden()  # nothing asks for another one


def test_who_gives_no_token_is_told_what_that_means(at: Open, guarded: Service) -> None:
    page = at(guarded).open()
    search(page, ENGLISH)
    page.get_by_role("button", name="Not now").click()
    expect(page.get_by_role("alert")).to_contain_text("No token")


def test_a_service_that_is_gone_is_told_in_words_and_loses_no_text(
    at: Open, browser: Browser, tmp_path: Path
) -> None:
    with serving(stored(tmp_path, DOCUMENTS[:3], Profile(verify=False)), tmp_path) as service:
        opened = at(service)
        page = opened.open()
        search(page, ENGLISH)
        heading(page)
        service.stop()
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
        expect(page.get_by_label("Text", exact=True)).to_have_value(ENGLISH)
        expect(page.locator("#state")).to_have_text("not reachable")
        opened.keep("error")


def test_the_state_is_true_within_seconds_also_of_a_service_that_hangs(at: Open, tmp_path: Path) -> None:
    with serving(stored(tmp_path, DOCUMENTS[:3], Profile()), tmp_path) as service:
        page = at(service).open("#/store")
        documents = page.locator(".numbers dd").first
        expect(documents).to_have_text("about 3")
        expect(page.locator("#state")).to_have_text("ready")
        service.process.send_signal(signal.SIGSTOP)
        try:
            expect(page.locator("#state")).to_have_text("not reachable", timeout=HANGS)
            expect(page.get_by_role("main").get_by_text("The service does not answer")).to_be_visible()
        finally:
            service.process.send_signal(signal.SIGCONT)
        expect(page.locator("#state")).to_have_text("ready", timeout=HANGS)
        expect(page.get_by_role("main").get_by_text("The service and its store answer.")).to_be_visible()
        service.post("/v1/documents", {"id": "another", "text": CHINESE})
        expect(documents).to_have_text("about 4", timeout=HANGS)  # counted every ten seconds


def test_everything_is_reached_by_keyboard_with_a_visible_focus(at: Open, service: Service) -> None:
    page = at(service).open()
    expect(page.locator("#state")).to_have_text("ready")
    page.keyboard.press("/")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.keyboard.type("x/y")
    expect(page.get_by_label("Text", exact=True)).to_have_value("x/y")
    search(page, ENGLISH)
    heading(page)
    page.get_by_role("link", name="Skip to the content").focus()
    reached = ["Skip to the content"]
    for _ in range(24):
        page.keyboard.press("Tab")
        name, visible = page.evaluate(FOCUSED)
        reached.append(name)
        assert visible, name
        if name == "What was read for this":
            break
    assert reached == [
        "Skip to the content",
        "simhbase",
        "Find",
        "Compare",
        "Browse",
        "Groups",
        "Store",
        "ready",
        "File for: Text",
        "Text",
        "Find",
        *reached[11:-2],
        "What are drawers?",
        "What was read for this",
    ]
    assert reached[11:-2] == [
        each
        for match in ("bridge/1", *(name for name in reached[13:-2] if name.startswith("bridge")))
        for each in (match, f"Compare with the text of {match}")
    ]
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Drawers")).to_be_visible()


FOCUSED = """() => {
  const element = document.activeElement;
  const name = element.getAttribute("aria-label") || element.labels?.[0]?.innerText || element.innerText;
  const shown = element.classList.contains("unseen") ? element.nextElementSibling : element;
  return [name.trim(), getComputedStyle(shown).outlineStyle !== "none"];
}"""


def test_a_phone_shows_everything_without_scrolling_aside(at: Open, service: Service) -> None:
    opened = at(service, viewport={"width": 360, "height": 740})
    page = opened.open()
    for view, name in (
        ("", "find"),
        ("#/compare", "compare"),
        ("#/document/bridge%2F1", "document"),
        ("#/document", "browse"),
        ("#/groups", "groups"),
        ("#/store", "store"),
    ):
        opened.open(view)
        if name == "find":
            search(page, EVIL_TEXT)
        if name == "compare":
            page.get_by_label("One text", exact=True).fill("long" * 100)
            page.get_by_label("Another text", exact=True).fill(CHINESE)
            page.keyboard.press("Control+Enter")
        page.locator(".found > *").last.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, name
        opened.keep(f"phone-{name}")


def test_every_text_stands_out_from_its_ground_in_light_and_dark(at: Open, service: Service) -> None:
    opened = at(service)
    page = opened.open()
    search(page, ENGLISH)
    heading(page)
    assert_readable(opened, "find")
    opened.open("#/compare")
    page.get_by_label("One text", exact=True).fill(ENGLISH)
    page.get_by_label("Another text", exact=True).fill(ENGLISH.replace("Monday", "Tuesday"))
    page.keyboard.press("Control+Enter")
    page.locator(".marked ins").first.wait_for()
    assert_readable(opened, "compare")


def assert_readable(opened: Tab, name: str) -> None:
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)
        assert opened.page.evaluate(CONTRAST) == []
        ground = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (scheme == "dark") == (sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 128)
        opened.keep(f"{scheme}-{name}")
