"""What `import simhbase` offers: every name, where it is looked for, and what it costs."""

import builtins
import inspect
import pkgutil
import pydoc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cached_property

import pytest

import simhbase
from simhbase.errors import SimhbaseError

FUNCTIONS = (
    "calibrate",
    "check",
    "compact",
    "compare",
    "dedup",
    "evaluate",
    "learn_boilerplate",
    "learn_idf",
    "load",
    "load_hfiles",
    "match",
    "migrate",
    "salvage",
    "vacuum",
)
OTHERS = {
    "Document",
    "Index",
    "InputOptions",
    "Inputs",
    "Lookup",
    "Match",
    "Profile",
    "Rejected",
    "AddReport",
    "errors",
    "tables",
}


def in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there_and_listed():
    assert {*FUNCTIONS, *OTHERS} < set(simhbase.__all__)
    assert {*simhbase.__all__, "open", "__version__"} <= set(dir(simhbase))
    for name in (*simhbase.__all__, "open", "__version__"):
        assert getattr(simhbase, name) is not None


def test_nothing_else_is_listed_but_what_python_puts_there():
    listed = in_a_new_process("import simhbase; print(*dir(simhbase))").split()
    others = set(listed) - {*simhbase.__all__, "open"}
    assert all(name.startswith("__") for name in others)


@pytest.mark.parametrize("name", ["open", *FUNCTIONS])
def test_functions_are_documented_and_typed(name):
    function = getattr(simhbase, name)
    assert inspect.isfunction(function)
    assert function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation != inspect.Signature.empty
    assert all(each.annotation != inspect.Parameter.empty for each in signature.parameters.values())


def methods(kind: type) -> Iterator[tuple[str, object]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and (
            inspect.isroutine(value) or isinstance(value, property | cached_property)
        ):
            yield name, value


def test_methods_of_public_classes_say_what_they_do():
    classes = [value for name in simhbase.__all__ if inspect.isclass(value := getattr(simhbase, name))]
    docs = {
        f"{kind.__name__}.{name}": inspect.getdoc(value) or ""
        for kind in classes
        for name, value in methods(kind)
    }
    assert [name for name, doc in docs.items() if not doc or doc.startswith(("The same", "See "))] == []


def test_what_tables_offers_is_documented():
    for name in ("create", "check", "describe", "drop", "ddl"):
        assert name in simhbase.tables.__all__
        assert getattr(simhbase.tables, name).__doc__


def test_every_error_that_users_catch_is_a_public_name():
    errors = {
        name
        for name, value in vars(simhbase.errors).items()
        if isinstance(value, type) and issubclass(value, SimhbaseError)
    }
    assert errors < set(simhbase.__all__)


def test_no_public_name_is_that_of_a_room():
    rooms = {each.name for each in pkgutil.iter_modules(simhbase.__path__)}
    assert rooms & set(dir(simhbase)) <= {"errors", *rooms.difference(simhbase.__all__)}
    assert rooms & {*FUNCTIONS, "open", "tables"} == set()
    loaded = "import simhbase.loads.load, simhbase.admin.check, simhbase.text, simhbase; "
    kinds = in_a_new_process(
        loaded
        + "print(*(type(getattr(simhbase, each)).__name__ for each in ('load', 'check', 'index', 'text')))"
    )
    assert kinds.split() == ["function", "function", "module", "module"]


def test_a_star_import_leaves_the_builtin_open_alone():
    names: dict[str, object] = {}
    exec("from simhbase import *", names)
    assert names.get("open", builtins.open) is builtins.open
    assert names["load"] is simhbase.load
    assert set(simhbase.__all__) <= set(names)


def test_help_begins_with_an_overview_that_names_everything():
    text = pydoc.render_doc(simhbase, renderer=pydoc.plaintext)
    for name in (*FUNCTIONS, "open", "Index", "Profile", "tables"):
        found = getattr(simhbase, name)
        assert inspect.getdoc(found)
        assert name in inspect.getdoc(simhbase)
    for name in FUNCTIONS:
        first = inspect.getdoc(getattr(simhbase, name)).splitlines()[0]
        assert first in text


def test_the_example_of_the_overview_finds_what_it_stores(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = inspect.getdoc(simhbase).partition("?\n\n")[2].partition("\n\nA store:")[0]
    exec(textwrap.dedent(example), {})
    assert capsys.readouterr().out == "a 0\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'fingerprints'"):
        _ = simhbase.fingerprints


def test_importing_simhbase_imports_nothing_large():
    heavy = (
        "numpy",
        "typing",
        "click",
        "thriftpy2",
        "rocksdict",
        "orjson",
        "simhbase.index",
        "simhbase.errors",
    )
    code = f"import sys, simhbase; dir(simhbase); print(*(name for name in {heavy} if name in sys.modules))"
    # What the environment itself imports at the start is nobody's business.
    before = in_a_new_process(f"import sys; print(*(name for name in {heavy} if name in sys.modules))")
    assert in_a_new_process(code) == before


def test_the_help_of_the_command_line_imports_no_rooms():
    code = (
        "import sys; from simhbase.cli import cli; cli(['--help'], standalone_mode=False); "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'simhbase.index', 'simhbase.corpus')))"
    )
    assert "calibrate" in in_a_new_process(code)


def test_wrong_arguments_are_named_as_python_has_them(tmp_path):
    url = f"rocksdb:{tmp_path / 's.db'}"
    with pytest.raises(simhbase.UsageError, match=r"^regions: only for tables in HBase"):
        simhbase.tables.create(url, regions=4, compression="gz", ttl=60)
    with pytest.raises(simhbase.UsageError, match="give either inputs"):
        simhbase.evaluate(tmp_path / "pairs.tsv")
    with pytest.raises(simhbase.UsageError, match=r"part: must be a pair like \(1, 100\).* not \(3, 2\)"):
        simhbase.check(url, part=(3, 2))
