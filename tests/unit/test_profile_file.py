"""Profiles as files: what is written is read again, and mistakes are named."""

import os
from pathlib import Path

import pytest

from simhbase.errors import BadInput, OutputFailed, UsageError
from simhbase.profile.file import chosen_parameters, read_parameters, write_profile_file
from simhbase.profile.profile import PRESETS, Profile, make_profile
from simhbase.text.boilerplate import Boilerplate, BoilerplateItem, render
from simhbase.text.idf import IdfTable

OWN_IDF = IdfTable("own", "北京 1.5\n大学 0.25\n".encode())
BOILERPLATE = Boilerplate("own", render([BoilerplateItem("line", 12, "版权所有")], 20, 10))


@pytest.mark.parametrize(
    "profile",
    [
        *(make_profile({}, preset) for preset in PRESETS),
        Profile(verify=False, layout="6x3", k=2, stop_words=frozenset(['"quoted"', "的", "a\\b", "\x7f"])),
        Profile(verify=False, weights="tfidf", idf=OWN_IDF),
        Profile(verify=True, threshold=0.7),
        Profile(verify=False, boilerplate=BOILERPLATE),
        Profile(scheme="minhash", threshold=0.65, bands="auto"),
    ],
    ids=lambda profile: f"{profile.scheme} {profile.features}",
)
def test_what_is_written_is_read_again(tmp_path: Path, profile: Profile) -> None:
    write_profile_file(tmp_path / "p.toml", profile)
    assert make_profile(read_parameters(str(tmp_path / "p.toml"))) == profile


def test_stop_words_of_a_file_are_one_a_line_in_any_script(tmp_path):
    (tmp_path / "stop.txt").write_text("的\n了\nかな カナ\nThe\n", "utf-8")
    given = chosen_parameters(None, [f"stop_words={tmp_path / 'stop.txt'}"])
    assert Profile(**given).stop_words == {"的", "了", "かな", "カナ", "the"}


@pytest.mark.parametrize(
    ("setting", "reason"), [("near=3", "no parameter 'near'"), ("k", "'k' is not NAME=VALUE")]
)
def test_a_setting_that_is_none_is_refused(setting: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"^settings: {reason}"):
        chosen_parameters(None, [setting])


def test_a_users_files_lie_beside_it(tmp_path: Path) -> None:
    write_profile_file(tmp_path / "p.toml", Profile(verify=False, weights="tfidf", idf=OWN_IDF))
    assert (tmp_path / "p.idf").read_bytes() == OWN_IDF.content
    assert 'idf = "p.idf"' in (tmp_path / "p.toml").read_text()


@pytest.mark.parametrize("preset", PRESETS)
def test_the_name_of_a_preset_stands_for_its_parameters(preset: str) -> None:
    assert make_profile(read_parameters(preset)) == make_profile({}, preset)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("scheme = minhash", BadInput, "is not valid TOML"),
        (f"k = {'[' * 10_000}", BadInput, "nests values too deep"),
        (f"{'k.' * 100_000}k = 1", BadInput, "a name of many parts"),
        (f"[{'k . ' * 100_000}k]", BadInput, "a name of many parts"),
        (f'k = {{{"k." * 100_000}"k" = 1}}', BadInput, "a name of many parts"),
        ("'k'." * 100_000 + "k = 1", BadInput, "a name of many parts"),
        ("", UsageError, "has no parameters: use 'default'"),
        ("# k = 3\n", UsageError, "has no parameters: use 'default'"),
        (f"k = {'9' * 5_000}", BadInput, "is not valid TOML: Exceeds the limit"),
        (f"k = 0x{'f' * 5_000}", BadInput, "is not valid TOML: Exceeds the limit"),
        (f"stop_words = [0x{'f' * 5_000}]", BadInput, "is not valid TOML: Exceeds the limit"),
        ('idf = "a\\u0000"', UsageError, "idf must be the name of a file"),
        (f'features = "{"x" * (1 << 20)}"', BadInput, "has more than 1 MiB"),
        ('sheme = "minhash"', UsageError, r"unknown parameters \(sheme\): use scheme, features"),
        ('stop_words = "的"', UsageError, "stop_words must be a list such as"),
        ("idf = 1", UsageError, "idf must be the name of a file"),
        ("stop_words = [[1]]", UsageError, "stop_words must be a list such as"),
        ('idf = "nowhere.idf"', BadInput, r"cannot read the IDF file .*nowhere\.idf"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: str, error: type[Exception], message: str) -> None:
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises(error, match=message):
        read_parameters(str(tmp_path / "p.toml"))


def test_words_and_comments_may_have_many_dots(tmp_path: Path) -> None:
    dots = "a." * 100
    (tmp_path / "p.toml").write_text(f'# {dots}\nstop_words = [\n"{dots}", \'{dots}"\', """{dots}"""]')
    assert read_parameters(str(tmp_path / "p.toml"))["stop_words"] == {dots, f'{dots}"'}


def test_what_is_neither_a_name_nor_a_file_is_refused() -> None:
    with pytest.raises(UsageError, match="no profile 'classics': use default, complete, classic, short, or"):
        read_parameters("classics")


def test_what_lies_there_and_is_not_ours_stays(tmp_path: Path) -> None:
    profile = Profile(verify=False, weights="tfidf", idf=OWN_IDF)
    (tmp_path / "p.idf").write_bytes(b"somebody's")
    with pytest.raises(UsageError, match=r"p\.idf belongs to the profile file"):
        write_profile_file(tmp_path / "p.toml", profile)
    with pytest.raises(UsageError, match=r"use \.toml"):
        write_profile_file(tmp_path / "p.idf", profile)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"p.idf": b"somebody's"}
    with pytest.raises(OutputFailed, match="cannot write"):
        write_profile_file(tmp_path / "nowhere" / "p.toml", Profile(verify=False))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives links away")
def test_a_link_of_another_user_in_a_folder_of_all_is_not_followed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "shared" / "p.toml"
    victim.write_text("mine")
    link.parent.mkdir()
    link.parent.chmod(0o1777)
    link.symlink_to(victim)
    os.lchown(link, 1, -1)
    os.chown(link.parent, 2, -1)
    with pytest.raises(OutputFailed, match="it is a link of another user"):
        write_profile_file(link, Profile())
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("target", ["own.toml", os.devnull])
def test_own_links_stay_and_devices_are_written_to(target, tmp_path):
    """With --profile-file /dev/stdout root replaced this by a file."""
    link = tmp_path / "p.toml"
    link.symlink_to(tmp_path / target)
    write_profile_file(link, Profile())
    assert link.is_symlink()
    assert target == os.devnull or read_parameters(str(tmp_path / target))
    assert {path.name for path in tmp_path.iterdir()} <= {"p.toml", "own.toml"}


@pytest.mark.parametrize("name", ["p.toml.part", "p.idf.part"])
def test_no_link_that_another_user_has_prepared_is_followed(name, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / name).symlink_to(victim)
    write_profile_file(tmp_path / "p.toml", Profile())
    assert victim.read_text() == "mine"
    assert (tmp_path / "p.toml").is_file()


def test_a_pipe_beside_a_profile_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.boilerplate")
    with pytest.raises(UsageError, match="exists with other content"):
        write_profile_file(tmp_path / "p.toml", Profile(verify=False, boilerplate=BOILERPLATE))
