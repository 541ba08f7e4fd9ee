"""A secured HBase: who is let in, by which gateways, and what others are told."""

import os
import shlex
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.stores import open_store
from simhbase.stores.hbase import HBaseBackend, HBaseStore
from simhbase.stores.hbase.schema import Options
from simhbase.stores.hbase.tools import VARIABLE
from tests.command_line import COMMAND, Done, documents, environment, result, run, texts
from tests.contract.plain import Values
from tests.kerberos import HOST, Realm
from tests.programs import program
from tests.relay import Relay

pytestmark = [pytest.mark.full, pytest.mark.kerberos, pytest.mark.usefixtures("patient")]

STORE = "tried:p"
GRANT = "begin\n  create_namespace 'tried'\nrescue\nend\nputs\ngrant 'loader', 'RWXCA', '@tried'\n"
ROWS = [(b"row%04d" % number, bytes(1000)) for number in range(600)]  # more than a frame of SASL holds
KEYS = [key for key, _ in ROWS]
PASSWORD = "changeit"
PATIENCE = 120  # seconds, longer than any answer takes on a slow machine
NO_ANSWER = 60.0  # seconds, longer than any command waits here


def become(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def realm(kerberos: Realm, patient: None, tmp_path_factory: pytest.TempPathFactory) -> Realm:
    """The secured HBase with a store of the user loader."""
    kerberos.cluster.shell(GRANT)
    with pytest.MonkeyPatch.context() as patch:
        become(patch, kerberos.by_keytab("loader"))
        HBaseBackend(kerberos.url(STORE)).make(Options(regions=1))
        folder = tmp_path_factory.mktemp("created")
        run("tables", "create", "--regions", 1, "--store", kerberos.url(STORE), cwd=folder)
    return kerberos


@pytest.fixture
def loader(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, realm.by_keytab("loader"))


def through(port: int, **options: object) -> str:
    """The URL of the store through one gateway of Thrift 1."""
    query = "&".join(f"{name}={value}" for name, value in ({"timeout": PATIENCE} | options).items())
    return f"hbase://{HOST}:{port}/{STORE}?{query}"


def opened(url: str) -> "closing[HBaseStore]":
    return closing(cast(HBaseStore, open_store(url, "write")))


def put_and_get(store: HBaseStore) -> None:
    records = Values(store.records("obsolete"))
    records.put(ROWS)
    assert records.get(KEYS) == [value for _, value in ROWS]
    assert records.scan([b"row"], 1_000) == [ROWS]
    records.delete(KEYS)


# Gateways


@pytest.mark.usefixtures("loader")
def test_messages_are_protected_as_each_gateway_asks(realm):
    """Of the three, auth and auth-int let others read them."""
    qop = "hbase.thrift.security.qop"
    with realm.gateway(1, {qop: "auth"}) as auth, realm.gateway(2, {qop: "auth-int"}) as integrity:
        for port, is_readable in ((auth, True), (realm.cluster.gateway[1], False)):
            seen: list[str] = []
            with Relay((HOST, port)) as relay:
                relay.before("mutateRows", lambda seen=seen: seen.append("mutateRows"))
                with opened(through(relay.port, kerberos="hbase", thrift2=integrity)) as store:
                    put_and_get(store)
            assert bool(seen) == is_readable
        with pytest.raises(StoreFailed, match=r"the gateway offers auth .*, and qop=auth-int asks for more"):
            open_store(through(auth, kerberos="hbase", qop="auth-int"), "read")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost with its key; beside it both as Java reads them."""
    folder = tmp_path_factory.mktemp("certificate")
    for command in (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem "
        "-out certificate.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost",
        f"openssl pkcs12 -export -in certificate.pem -inkey key.pem -out store.p12 -passout pass:{PASSWORD}",
    ):
        subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)
    both = [(folder / name).read_text() for name in ("certificate.pem", "key.pem")]
    (folder / "both.pem").write_text("".join(both))
    return folder / "certificate.pem"


@pytest.mark.usefixtures("loader")
def test_gateways_are_used_by_https_also_for_others(realm, certificate, monkeypatch):
    properties = {
        "hbase.regionserver.thrift.http": "true",
        "hbase.thrift.ssl.enabled": "true",
        "hbase.thrift.ssl.keystore.store": certificate.with_name("store.p12"),
        "hbase.thrift.ssl.keystore.password": PASSWORD,
        "hbase.thrift.ssl.keystore.type": "pkcs12",
        "hbase.thrift.support.proxyuser": "true",
        "hadoop.proxyuser.loader.hosts": "*",
        "hadoop.proxyuser.loader.users": "reader",
    }
    with realm.gateway(1, properties) as one, realm.gateway(2, properties) as two:
        secured = {"thrift2": two, "http": 1, "tls": 1, "ca": certificate}
        with opened(through(one, kerberos="HTTP", **secured)) as store:
            put_and_get(store)
        with (
            pytest.raises(StoreFailed, match=r"AccessDeniedException: .*user 'reader'"),
            closing(open_store(through(one, kerberos="HTTP", user="reader", **secured), "read")) as store,
        ):
            store.records("documents").get([b"k"])
        for options, words in (
            ({"kerberos": "HTTP", "user": "hbase"}, "loader is not allowed to impersonate hbase"),
            ({}, "HTTP 401 Unauthorized.*Add kerberos=HTTP if it asks for Kerberos"),
        ):
            with pytest.raises(StoreFailed, match=words):
                open_store(through(one, **options, **secured), "read")
        for options in ({"kerberos": "hbase"}, {"kerberos": "HTTP", "http": 1}):
            with pytest.raises(StoreFailed, match="speaks TLS: add tls=1"):
                open_store(through(one, **options), "read")
        with opened(through(one, kerberos="HTTP", **secured)) as store:
            become(monkeypatch, realm.without_ticket())
            with pytest.raises(StoreFailed, match="no Kerberos session with HTTP/localhost"):
                store.records("documents").get([b"k"])


@pytest.mark.usefixtures("loader")
def test_a_proxy_may_ask_for_a_certificate_of_the_client(realm, certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    context.load_cert_chain(certificate.with_name("both.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    with Relay(realm.cluster.gateway, context) as relay:
        secured = {"kerberos": "hbase", "tls": 1, "ca": certificate}
        with opened(through(relay.port, cert=certificate.with_name("both.pem"), **secured)) as store:
            put_and_get(store)
        with pytest.raises(StoreUnreachable, match="Does it ask for a client certificate"):
            open_store(through(relay.port, **(secured | {"timeout": 2})), "read")


# Who is not let in, and other things that go wrong


def refused(tmp_path: Path, url: str, variables: dict[str, str], code: int = 1) -> str:
    """What a command says that ends with this code."""
    done = run("stats", "--store", url, cwd=tmp_path, **variables)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


def test_who_has_no_ticket_or_an_old_one_is_told_how_to_get_one(realm, tmp_path):
    advice = "Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME"
    said = refused(tmp_path, realm.url(STORE), realm.without_ticket())
    assert "no Kerberos session with hbase/localhost: No Kerberos credentials available" in said
    assert advice in said
    old = realm.by_ticket("loader", "-l", "1s")
    wait_for_the_end(old)
    said = refused(tmp_path, realm.url(STORE), old)
    assert "no Kerberos session with hbase/localhost" in said
    assert "expired" in said
    assert advice in said


def wait_for_the_end(variables: dict[str, str]) -> None:
    """Returns when a ticket has expired, also for GSSAPI, which uses it one more second."""
    while subprocess.run(["klist", "-s"], env=os.environ | variables).returncode == 0:
        time.sleep(0.1)
    time.sleep(2)


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("nosuch", "nosuch/localhost@SIMHBASE.TEST not found in Kerberos database. Name the gateway's"),
        ("hbase/other", "hbase/other@SIMHBASE.TEST not found in Kerberos database. Name the gateway's"),
        ("HTTP", "the gateway refuses the Kerberos ticket (GSS initiate failed): does kerberos= name its"),
    ],
)
def test_a_wrong_principal_of_the_gateway_is_told(realm, tmp_path, service, words):
    assert words in refused(tmp_path, realm.url(STORE, kerberos=service), realm.by_keytab("loader"))


def test_a_clock_that_is_wrong_is_told(realm, tmp_path):
    variables = realm.by_ticket("loader")
    done = subprocess.run(
        [program("faketime"), "-f", "+10m", *COMMAND, "stats", "--store", realm.url(STORE)],
        cwd=tmp_path,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Clock skew too great. Set the clocks of this machine, the KDC and the gateway" in done.stderr


def test_a_user_without_rights_on_a_table_is_refused_at_once(realm, tmp_path):
    said = refused(tmp_path, realm.url(STORE), realm.by_ticket("reader"))
    assert "AccessDeniedException: Insufficient permissions for user 'reader'" in said
    file = documents(tmp_path / "in.jsonl", texts(3))
    done = run("load", file, "--store", realm.url(STORE), cwd=tmp_path, **realm.by_ticket("reader"))
    assert done.returncode == 1
    assert b"AccessDeniedException" in done.stderr
    done = run(
        *("tables", "create", "--store", realm.url("tried:reader")), cwd=tmp_path, **realm.by_ticket("reader")
    )
    assert done.returncode == 1
    assert b"AccessDeniedException" in done.stderr


def test_a_client_without_kerberos_is_told_to_use_it(realm, tmp_path):
    """The gateway waits, and says nothing."""
    port = realm.cluster.gateway[1]
    for options, words in (
        ({}, "asks for SASL (Kerberos): add kerberos=SERVICE"),
        ({"http": 1}, "asks for SASL (Kerberos), not HTTP: leave out http=1"),
        ({"tls": 1, "kerberos": "hbase"}, "speaks without TLS: leave out tls=1"),
    ):
        said = refused(tmp_path, through(port, **options), realm.by_keytab("loader"))
        assert f"{HOST}:{port} {words}" in said


def test_a_gateway_without_kerberos_is_named(realm, tmp_path):
    """It waits, and says nothing."""
    with realm.gateway(1, {"hbase.thrift.security.qop": None}) as port:
        said = refused(tmp_path, through(port, kerberos="hbase"), realm.by_keytab("loader"))
        assert f"{HOST}:{port} speaks without SASL (Kerberos): leave out kerberos=" in said


@contextmanager
def kdc_elsewhere(realm: Realm, folder: Path, port: int) -> Iterator[dict[str, str]]:
    """The environment of a user whose settings name another KDC."""
    there = f"kdc = 127.0.0.1:{realm.cluster.description['ports']['kdc']}\n"
    settings = Path(realm.settings).read_text()
    assert there in settings
    (folder / "krb5.conf").write_text(settings.replace(there, f"kdc = 127.0.0.1:{port}\n"))
    yield realm.by_keytab("loader", settings=str(folder / "krb5.conf"))


def test_a_kdc_that_hangs_is_waited_for_no_longer_than_the_operation_may_take(realm, tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        kdc_elsewhere(realm, tmp_path, silent.getsockname()[1]) as variables,
    ):
        start = time.monotonic()
        said = refused(tmp_path, realm.url(STORE, timeout=2), variables, 11)
        assert time.monotonic() - start < NO_ANSWER
    assert "no answer from the Kerberos servers (KDC) in time" in said


def test_a_kdc_that_is_gone_is_told(realm, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with kdc_elsewhere(realm, tmp_path, port) as variables:
        said = refused(tmp_path, realm.url(STORE, timeout=2), variables, 11)
    assert "Cannot contact any KDC for realm 'SIMHBASE.TEST'" in said.replace('"', "'")


# Tickets that expire while a store is open


def test_open_connections_outlive_a_ticket_and_new_ones_need_another(realm, monkeypatch):
    variables = realm.by_ticket("loader", "-l", "10s")
    become(monkeypatch, variables)
    with (
        Relay(realm.cluster.gateway) as relay,
        opened(through(relay.port, kerberos="hbase", connections=1)) as store,
    ):
        records = Values(store.records("obsolete"))
        records.put(ROWS)
        wait_for_the_end(variables)
        assert records.get(KEYS[:1]) == [ROWS[0][1]]
        relay.cut()
        with pytest.raises(StoreFailed, match=r"expired.*kinit"):
            records.get(KEYS)
        realm.renew(variables, "loader")
        assert records.get(KEYS) == [value for _, value in ROWS]
        records.delete(KEYS)


@pytest.fixture(scope="module")
def readable_gateway(realm: Realm) -> Iterator[int]:
    """Its messages can be told apart on their way."""
    with realm.gateway(1, {"hbase.thrift.security.qop": "auth"}) as port:
        yield port


def write_new(path: Path, prefix: str) -> Path:
    """Documents that are not stored like this, also where the store is that of former tests."""
    return documents(path, texts(20, seed=time.time_ns()), prefix)


def load_beyond_the_ticket(port: int, folder: Path, variables: dict[str, str]) -> tuple[Done, int]:
    """What a load leaves whose ticket expires, and whose connections are lost, before it writes its first
    documents; the number of its connections."""
    with Relay((HOST, port)) as relay:

        def expire() -> None:
            wait_for_the_end(variables)
            relay.cut()

        relay.before("mutateRows", expire)
        url = through(relay.port, kerberos="hbase", connections=1)
        done = run("load", folder / "in.jsonl", "--store", url, cwd=folder, **variables)
        return done, relay.connections


def test_a_load_by_keytab_outlives_its_ticket(realm, readable_gateway, tmp_path):
    settings = Path(realm.settings).read_text()
    (tmp_path / "krb5.conf").write_text(settings.replace("[realms]", "  ticket_lifetime = 5s\n[realms]"))
    variables = realm.by_keytab("loader", settings=str(tmp_path / "krb5.conf"))
    write_new(tmp_path / "in.jsonl", "k")
    done, connections = load_beyond_the_ticket(readable_gateway, tmp_path, variables)
    assert done.returncode == 0, done.stderr.decode()
    assert connections > 1
    by_id = ("find", "--id", "k19", "--store", realm.url(STORE))
    assert result(*by_id, cwd=tmp_path, **variables)["matches"]


def test_a_load_by_a_ticket_ends_with_it_and_goes_on_with_another(realm, readable_gateway, tmp_path):
    variables = realm.by_ticket("loader", "-l", "5s")
    write_new(tmp_path / "in.jsonl", "t")
    done, _ = load_beyond_the_ticket(readable_gateway, tmp_path, variables)
    assert done.returncode == 1, done.stderr.decode()
    assert b"Get a ticket with kinit" in done.stderr
    assert b"Traceback" not in done.stderr
    realm.renew(variables, "loader")
    load = ("load", tmp_path / "in.jsonl", "--lock-wait", "60s", "--store", realm.url(STORE))
    assert result(*load, cwd=tmp_path, **variables)["loaded"] == 20


# HBase's own tool


def test_documents_are_loaded_as_hfiles_by_the_users_ticket(realm, tmp_path):
    """The tool finds the ticket that the keytab has brought in the cache, which is a file."""
    file = write_new(tmp_path / "in.jsonl", "h")
    variables = realm.by_keytab("loader") | {
        "SIMHBASE_STORE": realm.url(STORE),
        VARIABLE: shlex.join(realm.cluster.command("run")),
    }
    umask = os.umask(0)  # HBase looks whether the user of that name may move the files, who is none here
    try:
        loaded = result(
            *("load", "--via", "hfiles", "--work-folder", tmp_path / "work", file), cwd=tmp_path, **variables
        )
    finally:
        os.umask(umask)
    assert loaded["loaded"] == 20
    assert result("find", "--id", "h19", cwd=tmp_path, **variables)["matches"]
