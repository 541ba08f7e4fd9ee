"""The guard: two profiles never mix."""

import zlib
from contextlib import closing, contextmanager
from importlib.metadata import version

import orjson
import pytest

from simhbase.drawers.bands import bands
from simhbase.drawers.threshold import RisingThreshold
from simhbase.errors import BadInput, ProfileMismatch, StoreFailed, TablesMissing, UsageError
from simhbase.index.stored_profile import FORMAT, probes, read_profile, write_profile
from simhbase.model.thresholds import SIMILAR
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores import create_store
from simhbase.stores.meta import Meta
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.idf import IdfTable


@pytest.fixture
def store():
    opened = create_store("memory:")
    yield opened
    opened.close()


def stored_record(store):
    return orjson.loads(Meta(store).get(b"profile"))


def test_a_profile_comes_back_as_it_was(store):
    profile = Profile(
        verify=False, layout="6x3", k=2, features="chars:4", min_features=5, stop_words=frozenset("ab")
    )
    write_profile(store, profile)
    assert read_profile(store).profile == profile


@pytest.mark.parametrize(
    "profile",
    [
        Profile(weights="saturated", slots=128, threshold=None, reach=3),
        Profile(verify=True, threshold=0.7),
        Profile(verify=True, threshold=0.7, reach=7),
        Profile(scheme="minhash"),
        Profile(scheme="minhash", features="words:2", slots=64, sketch_bits=16, bands="8x8", threshold=0.9),
        make_profile({}, "short"),
        Profile(scheme="minhash", features="chars:1-3", threshold=0.7),
    ],
)
def test_a_profile_with_sketches_comes_back_as_it_was(store, profile):
    write_profile(store, profile)
    assert read_profile(store).profile == profile
    read_profile(store).check_pipeline(profile.fingerprinter())


def test_a_new_profile_is_the_default():
    assert Profile() == make_profile({}) == Profile(verify=True, threshold=0.65, reach=7, weights="capped")


@pytest.mark.parametrize(
    "given",
    [
        {"features": "words:2"},
        {"min_length": 1},
        {"min_features": 3},
        {"stop_words": ["a"]},
        {"boilerplate": Boilerplate("mine", b"line\t9\tread more\n")},
        {"fold": "arabic"},
        {"bits": 128},
        {"layout": "6x3"},
        {"k": 2},
        {"weights": "saturated"},
        {"top": 9},
        {"weights": "tfidf", "idf": IdfTable("mine", b"a 1\n")},
        {"verify": False},
        {"slots": 128},
        {"sketch_bits": 4},
        {"threshold": 0.8},
        {"reach": 8},
        {"same_numbers": True},
    ],
    ids=str,
)
def test_the_digest_of_a_profile_depends_on_every_parameter(given):
    """Profiles that differ in one parameter have different digests."""
    counts = {"weights": "count"}
    assert Profile(**{**counts, **given}).digest != Profile(**counts).digest


def test_the_digest_of_a_profile_does_not_depend_on_the_version_of_the_tokenizer():
    """The check of fixed texts tells whether two versions cut words differently."""
    assert Profile(tokenizer="another 1.0").digest == Profile().digest


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"verify": True, "threshold": 0.7, "reach": 2}, r"reach: must be 3 .* to 31 bits, not 2"),
        ({"verify": True, "threshold": 0.7, "reach": 32}, "reach: must be 3 .* to 31 bits, not 32"),
        ({"threshold": None, "reach": 7}, "needs a threshold"),
        ({"verify": False, "reach": 7}, "reach: does not apply to scheme simhash without verification"),
    ],
)
def test_a_reach_needs_sketches_that_decide(given, reason):
    with pytest.raises(UsageError, match=reason):
        Profile(**given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"verify": "no"}, "verify: must be true or false, not 'no'"),
        ({"k": "three"}, "k: must be an integer, not 'three'"),
        ({"k": True}, "k: must be an integer, not True"),
        ({"layout": 52}, "layout: must be a string, not 52"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(given, reason):
    with pytest.raises(UsageError, match=f"^{reason}$"):
        Profile(**given)


def test_the_reach_of_a_store_changes_without_its_texts():
    before = Profile(verify=True, threshold=0.7, reach=3)
    assert before.reindexed({"reach": 7}).reach == 7
    assert before.reindexed({"k": 2}).reach == 2


def test_the_rule_names_the_reach():
    rule = Profile(verify=True, threshold=0.7, reach=7).index_scheme.rule(None)
    assert rule == "within 7 bits in a shared drawer, estimated similarity >= 0.7"


def test_a_profile_says_what_applies_to_its_scheme_alone():
    assert {"k", "layout", "verify"} <= Profile(verify=False).describe().keys()
    assert not {"slots", "bands", "threshold"} & Profile(verify=False).describe().keys()
    described = Profile(scheme="minhash").describe()
    assert not {"k", "layout", "bits", "weights", "top", "idf", "verify"} & described.keys()
    assert (described["features"], described["slots"], described["bands"]) == (
        *("chars:growing", 256),
        "20x5",
    )
    with pytest.raises(ProfileMismatch, match="k does not apply to scheme minhash"):
        Profile(scheme="minhash").require({"k": 3})


def test_bands_are_chosen_for_the_threshold(store):
    profile = Profile(scheme="minhash", bands="auto", threshold=0.7)
    assert bands(profile.bands).meeting(0.7) >= 0.99
    write_profile(store, profile)
    read_profile(store).profile.require({"bands": "auto", "threshold": 0.7})
    with pytest.raises(ProfileMismatch, match="bands is"):
        read_profile(store).profile.require({"bands": "20x6"})


def test_a_preset_means_the_bands_of_stores():
    for preset in ("complete", "short"):
        make_profile({}, preset).require(given_parameters(preset))
    with pytest.raises(ProfileMismatch, match="bands is 16x8, not 20x5"):
        make_profile({"bands": "16x8"}, "complete").require(given_parameters("complete"))
    moved = make_profile({"bands": "16x8"}, "complete").reindexed(given_parameters("complete"))
    assert moved == make_profile({}, "complete")


def test_a_rising_threshold_brings_the_features_and_bands_that_it_is_made_for(store):
    profile = Profile(scheme="minhash", threshold="0.52-0.7")
    described = profile.describe()
    assert (described["threshold"], described["features"], described["bands"]) == (
        "0.52-0.7",
        "chars:1-3",
        "32x4",
    )
    write_profile(store, profile)
    stored = read_profile(store).profile
    stored.require({"threshold": "0.52-0.7", "scheme": "minhash"})
    with pytest.raises(ProfileMismatch, match=r"threshold is 0\.52-0\.7, not 0\.7"):
        stored.require({"threshold": 0.7})
    with pytest.raises(ProfileMismatch, match=r"threshold is 0\.65, not 0\.52-0\.7"):
        Profile(scheme="minhash").require({"threshold": "0.52-0.7"})
    assert make_profile({"threshold": "0.52-0.7"}, "short") == profile


def test_a_threshold_that_rises_goes_from_the_one_to_the_other():
    rising = Profile(scheme="minhash", threshold="0.54-0.7")
    assert (rising.features, rising.bands) == ("chars:1-3", "32x4")
    assert rising.index_scheme.threshold == RisingThreshold(least=0.54, most=0.7, least_to=48)
    assert rising.index_scheme.rule(None) == "estimated similarity >= 0.54 to 0.7 by the number of features"
    assert Profile(scheme="minhash").index_scheme.threshold == SIMILAR


@pytest.mark.parametrize("spelled", ["0.540-0.70", ".54-.7"])
def test_two_similarities_are_the_same_however_they_are_spelled(spelled):
    assert Profile(scheme="minhash", threshold=spelled) == Profile(scheme="minhash", threshold="0.54-0.7")
    Profile(scheme="minhash", threshold="0.54-0.7").require({"threshold": spelled})
    assert Profile(scheme="minhash", threshold="0.5-1.0").threshold == "0.5-1"


def test_the_threshold_of_a_store_becomes_another_that_rises_without_its_texts():
    before = Profile(scheme="minhash", threshold="0.52-0.7")
    assert before.reindexed({"threshold": "0.54-0.7"}).threshold == "0.54-0.7"
    with pytest.raises(ProfileMismatch, match="Load the texts"):
        before.reindexed({"threshold": 0.6})


def test_bands_are_chosen_for_the_least_value_of_a_rising_threshold():
    profile = Profile(scheme="minhash", bands="auto", threshold="0.52-0.7")
    assert bands(profile.bands).meeting(0.52) >= 0.99
    profile.require({"bands": "auto"})
    assert make_profile({"bands": "42x3"}, "short").threshold == "0.54-0.7"
    assert make_profile({"threshold": 0.6}, "short").features == "chars:1-3"


def test_a_profile_with_an_unknown_parameter_is_refused_by_its_name(store):
    write_profile(store, Profile(verify=False))
    record = stored_record(store)
    Meta(store).put([(b"profile", orjson.dumps(record | {"folding": "strict"}))])
    with pytest.raises(ProfileMismatch, match=r"\(folding\): install the simhbase that made"):
        read_profile(store)


def test_tables_without_a_profile_count_as_missing(store):
    with pytest.raises(TablesMissing, match="tables create"):
        read_profile(store)


def test_documents_without_a_profile_are_damage_that_no_creation_covers(store):
    """The profile is written first, so it was lost."""
    store.records("documents").put([(b"x", b"y")])
    for use in (lambda: read_profile(store), lambda: write_profile(store, Profile(verify=False))):
        with pytest.raises(StoreFailed, match="lost the profile"):
            use()
    assert store.records("meta").get([b"profile"]) == [None]


def test_writing_the_same_profile_again_changes_nothing(store):
    write_profile(store, Profile(verify=False))
    before = store.records("meta").get([b"profile"])
    write_profile(store, Profile(verify=False))
    assert store.records("meta").get([b"profile"]) == before


@pytest.mark.parametrize(
    "profile", [Profile(stop_words={"Alpha"}), Profile(scheme="minhash", stop_words={"Alpha"})]
)
def test_stop_words_are_compared_in_the_normal_form_of_the_profile(profile):
    profile.require({"stop_words": ["Alpha"]})
    with pytest.raises(ProfileMismatch, match=r"stop_words is 1 word \(alpha\), not 1 word \(beta\)"):
        profile.require({"stop_words": frozenset(["Beta"])})


def test_of_two_creators_the_first_wins(store):
    write_profile(store, Profile(verify=False, k=2))
    with pytest.raises(ProfileMismatch, match="k is 2, not 3"):
        write_profile(store, Profile(verify=False))
    assert read_profile(store).profile.k == 2


def test_options_that_were_not_given_are_not_compared():
    Profile(verify=False, weights="tfidf", top=64).require({"k": 3, "top": 64})
    with pytest.raises(ProfileMismatch, match="top is 64, not 10"):
        Profile(verify=False, weights="tfidf", top=64).require({"top": 10})
    with pytest.raises(ProfileMismatch, match="weights is tfidf, not count"):
        Profile(verify=False, weights="tfidf", top=64).require({"weights": "count"})


def test_a_pipeline_that_answers_differently_is_refused_with_both_answers(store):
    write_profile(store, Profile(verify=False))
    record = stored_record(store)
    stored = record["probes"][7]
    record["probes"][7] = "00000000deadbeef"
    Meta(store).put([(b"profile", orjson.dumps(record))])
    found = read_profile(store)
    with pytest.raises(
        ProfileMismatch, match=f"fixed text 8 is 00000000deadbeef in the store and {stored} here"
    ) as refused:
        found.check_pipeline(found.profile.fingerprinter())
    assert "load its documents into a new store (simhbase load)" in str(refused.value)


def test_the_tokenizer_is_that_of_the_creator_and_is_not_compared(store):
    installed = f"jieba {version('jieba')}"
    assert Profile(verify=False).describe()["tokenizer"] == installed
    assert Profile(verify=False, features="chars:3").describe()["tokenizer"] is None
    write_profile(store, Profile(verify=False))
    record = stored_record(store)
    assert record["tokenizer"] == installed
    Meta(store).put([(b"profile", orjson.dumps(record | {"tokenizer": "jieba 0.0.1"}))])
    found = read_profile(store)
    assert found.profile.describe()["tokenizer"] == "jieba 0.0.1"
    assert found.profile == Profile(verify=False)
    found.check_pipeline(found.profile.fingerprinter())
    write_profile(store, Profile(verify=False))


def test_a_fold_is_stored_with_its_table(store, monkeypatch):
    write_profile(store, Profile(verify=False, fold="hant"))
    monkeypatch.setattr("simhbase.text.packages.find_spec", lambda name: None)
    found = read_profile(store).profile
    found.require({"fold": "hant"})
    traditional, simplified = map(found.fingerprinter().fingerprint, ["臺灣的國家", "台湾的国家"])
    assert traditional == simplified
    with pytest.raises(ProfileMismatch, match=r"fold is hant \(SHA-256 .*\), not none"):
        found.require({"fold": None})
    with pytest.raises(BadInput, match=r"pip install 'simhbase\[hant\]'"):
        Profile(verify=False, fold="hant")


def test_a_fold_is_another_profile():
    folded = Profile(verify=False, fold="hant")
    assert folded != Profile(verify=False)
    assert folded.digest != Profile(verify=False).digest
    with pytest.raises(ProfileMismatch, match="fold is none, not hant"):
        Profile(verify=False).require({"fold": "hant"})


def test_words_are_counted_with_saturation_and_ngrams_without():
    weights = {kind: Profile(verify=False, features=kind).weights for kind in ("words", "words:2", "chars:3")}
    assert weights == {"words": "saturated", "words:2": "count", "chars:3": "count"}
    assert make_profile({}, "classic").weights == "tfidf"


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_with_what_to_do(store, number):
    """A store of another format is neither read nor written; the error says to load the documents again."""
    write_profile(store, Profile(verify=False))
    other = {"format": number, "token": "1"}
    Meta(store).put([(b"profile", orjson.dumps(other))])
    with pytest.raises(ProfileMismatch, match=rf"format {number}, this one reads format {FORMAT}") as refused:
        read_profile(store)
    assert refused.value.exit_code == 12
    with pytest.raises(ProfileMismatch, match="load the documents into a new store"):
        write_profile(store, Profile(verify=False))
    assert stored_record(store) == other


@pytest.mark.parametrize("name", ["shingles", "permutations"])
def test_sketches_by_other_rules_are_refused_with_what_to_do(store, name):
    """The fixed texts do not show them: fingerprints are the same."""
    write_profile(store, Profile())
    row = {**stored_record(store), name: "chars:3"}
    Meta(store).put([(b"profile", orjson.dumps(row))])
    with pytest.raises(ProfileMismatch, match=f"its {name} are chars:3, here .* Load the documents again"):
        read_profile(store)


def test_tables_that_were_made_anew_are_told_from_those_that_were_opened(store):
    write_profile(store, Profile(verify=False))
    opened = read_profile(store)
    opened.require_in(store)
    write_profile(store, Profile(verify=False))
    opened.require_in(store)
    with create_anew() as anew, pytest.raises(ProfileMismatch, match="dropped and recreated"):
        opened.require_in(anew)
    store.records("meta").delete([b"profile"])
    with pytest.raises(TablesMissing, match="lost their profile"):
        opened.require_in(store)


@contextmanager
def create_anew():
    """Other tables of the same profile."""
    with closing(create_store("memory:")) as anew:
        write_profile(anew, Profile(verify=False))
        yield anew


def test_the_usual_profiles_answer_all_fixed_texts():
    assert len(set(probes())) == 24
    for profile in (
        Profile(verify=False),
        make_profile({}, "classic"),
        Profile(verify=False, features="chars:3"),
    ):
        assert not any(profile.fingerprinter().fingerprint_many(probes()).reasons)


def test_a_damaged_piece_of_a_users_idf_table_is_noticed(store):
    table = IdfTable("mine", b"a 1\nb 2\n")
    write_profile(store, Profile(verify=False, weights="tfidf", idf=table))
    ((key, _),) = store.records("meta").scan([b"idf/"], limit=9)[0]
    assert key == f"idf/{table.digest}/000000".encode()
    Meta(store).put([(key, zlib.compress(b"a 1\n"))])
    with pytest.raises(ProfileMismatch, match="IDF table"):
        read_profile(store)


@pytest.mark.parametrize("raced", [False, True], ids=["one after the other", "at once"])
def test_a_creator_that_comes_second_leaves_the_idf_table_of_the_first(store, monkeypatch, raced):
    first, second = (
        Profile(verify=False, weights="tfidf", idf=IdfTable("t", content)) for content in (b"a 1\n", b"b 2\n")
    )
    write_profile(store, first)
    meta = store.records("meta")
    if raced:  # the second has looked before the first was there
        get = meta.get
        monkeypatch.setattr(meta, "get", lambda keys: monkeypatch.undo() or [None for _ in get(keys)])
    with pytest.raises(ProfileMismatch, match="idf is"):
        write_profile(store, second)
    assert read_profile(store).profile == first


def test_given_values_are_compared_one_by_one_even_where_they_do_not_fit_the_others():
    with pytest.raises(ProfileMismatch, match="layout is 5x2, not 3x1"):
        Profile(verify=False).require({"layout": "3x1"})
    with pytest.raises(ProfileMismatch, match="features is words, not chars:3"):
        Profile(verify=False, weights="tfidf", top=64).require({"features": "chars:3"})
    with pytest.raises(ProfileMismatch, match="idf is none, not a file of 1 word "):
        Profile(verify=False).require({"idf": IdfTable("t", b"a 1\n")})


def test_stop_words_are_normalised_like_the_texts():
    assert Profile(verify=False, stop_words=frozenset(["Ｓtop"])).stop_words == {"stop"}


def test_an_idf_beyond_all_measure_is_refused():
    for value in ("1e300", "-1", "nan", "inf", "x"):
        with pytest.raises(BadInput, match="mine, line 2"):
            _ = IdfTable("mine", f"a 1\nb {value}\n".encode()).weights


@pytest.mark.parametrize(
    "given",
    [
        {"scheme": "minhash?"},
        {"bits": 32},
        {"k": 4},
        {"k": -1},
        {"layout": "5x5"},
        {"layout": "x"},
        {"min_features": 0},
        {"top": 1},
        {"layout": "99x1"},
        {"scheme": "minhash", "k": 3},
        {"scheme": "minhash", "layout": "5x2"},
        {"scheme": "minhash", "bits": 64},
        {"scheme": "minhash", "weights": "count"},
        {"scheme": "minhash", "top": 64},
        {"scheme": "minhash", "verify": True},
        {"scheme": "minhash", "bands": "6"},
        {"scheme": "minhash", "bands": "20x13"},
        {"scheme": "minhash", "bands": "60x1"},
        {"scheme": "minhash", "threshold": 0},
        {"scheme": "minhash", "threshold": "low"},
        {"scheme": "minhash", "threshold": "auto"},
        {"scheme": "minhash", "threshold": "0.54-0.7", "features": "words:2"},
        {"scheme": "minhash", "threshold": "0.7-0.54"},
        {"scheme": "minhash", "threshold": "0.0-0.7"},
        {"scheme": "minhash", "threshold": "0.54-1.7"},
        {"scheme": "minhash", "threshold": "0.\u0665-0.7"},
        {"scheme": "minhash", "threshold": "0.54-0.7", "features": "chars:3"},
        {"verify": True, "threshold": "0.54-0.7"},
        {"scheme": "minhash", "sketch_bits": 3},
        {"bands": "20x6"},
        {"verify": False, "threshold": 0.8},
        {"verify": False, "slots": 128},
        {"verify": True, "sketch_bits": 5},
        {"verify": True, "threshold": 1.5},
    ],
)
def test_unknown_parameters_are_refused(given):
    with pytest.raises(UsageError):
        make_profile(given)


@pytest.mark.parametrize(
    "given",
    [
        {"scheme": ["simhash"]},
        {"layout": 5},
        {"features": 3},
        {"k": "3"},
        {"k": 3.0},
        {"min_length": True},
        {"min_features": None},
        {"verify": 1, "slots": 256},
        {"scheme": "minhash", "threshold": [0.8]},
        {"idf": "words.txt"},
        {"boilerplate": "lines.txt"},
        {"stop_words": "ab"},
        {"stop_words": None},
        {"stop_words": [1]},
        {"k": "many"},
        {"k": 4},
        {"features": "letters"},
        {"features": "chars:auto"},
        {"weights": "heavy"},
        {"top": 0},
    ],
)
def test_values_that_a_parameter_cannot_have_are_refused_by_its_name(given):
    *_, name = given
    with pytest.raises(UsageError, match=r"^(verify|" + name + "): "):
        Profile(**given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"features": "chars:auto"}, r"words:N or chars:N .* chars:1-3"),
        ({"threshold": "auto"}, r"a Jaccard similarity .* 0\.54-0\.7"),
        ({"normalisation": "nfkc-lower-v2"}, "use scheme, features, "),
    ],
)
def test_a_setting_that_there_is_not_is_refused_with_those_that_there_are(given, named):
    with pytest.raises(UsageError, match=named):
        Profile(**given)


def test_an_unknown_preset_is_refused():
    with pytest.raises(UsageError, match="classic"):
        make_profile({}, "best")
