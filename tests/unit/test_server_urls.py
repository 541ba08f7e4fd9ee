"""URLs of stores in PostgreSQL and Redis."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, process_time, sleep
from traceback import format_exception

import pytest

from simhbase.errors import SimhbaseError, StoreFailed, StoreUnreachable, UsageError
from simhbase.model.urls import redacted, refuse_secret, without_passwords
from simhbase.online.client import Client
from simhbase.stores import open_store
from simhbase.stores.postgresql import url as postgresql
from simhbase.stores.redis import client
from simhbase.stores.redis import url as redis
from simhbase.stores.redis.client import encrypted
from tests.command_line import run_alone

SECRETS = [
    "me:secret@host/0",
    "me:12@host/0",
    "me:12/secret@host:1/0",
    "me%3Asecret@host/0",
    "me:se/cret@host/0",
    "me:se?cret@host/0",
    ":se#cret@host/0",
    "me:s@cret@host/0",
    "host/0?password=secret",
    "host/0?sslpassword=secret",
    "host/0?passwd=secret",
    "host/0?PASS=secret",
    "host/0?auth=secret",
    "host/0?api_key=secret",
    "host/0?x-api-key=secret",
    "host/0?options=-c%20x.password%3Dsecret",
    "host/0?aws_secret_key=secret",
    "host/0?scram_client_key=secret",
    "host/0?credential=secret",
    "host/0#password=secret",
]


@pytest.mark.parametrize(
    "scheme", ["postgresql", "redis", "rediss", "hbase", "postgres", "PostgreSQL", "mysql", "http"]
)
@pytest.mark.parametrize("rest", SECRETS)
@pytest.mark.parametrize("call", [open_store, Client], ids=["a store", "a service"])
def test_a_password_is_refused_and_not_shown(call, scheme, rest):
    with pytest.raises(UsageError, match="contains a password") as refused:
        call(f"{scheme}://{rest}", *(["read"] if call is open_store else []))
    assert "cret" not in str(refused.value)
    assert "12" not in str(refused.value)


@pytest.mark.parametrize("call", [open_store, Client], ids=["a store", "a service"])
@pytest.mark.parametrize(
    "url",
    [
        " postgresql://bob:secret@h/db",
        "jdbc:postgresql://bob:secret@h/db",
        "bob:secret@h/db",
        "//bob:secret@h/db",
        "postgresql:bob:secret@h/db",
        "redis:/bob:secret@h",
        "postgres ql://bob:secret@h",
        "postgresql:\\\\bob:secret@h",
    ],
)
def test_a_password_in_what_is_no_url_is_not_shown(call, url):
    with pytest.raises(UsageError, match="contains a password") as refused:
        call(url, "read") if call is open_store else call(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob@h:5432/db",
        "redis://h:6379/0",
        "hbase://a:9090,b:9090/n:p?thrift2=9091&user=bob",
        "hbase://a:9090,b:9090/n:p?thrift2=9091&http=1&user=bob@REALM",
        "hbase://[::1]:9090,b:9090/n:p?http=1&user=bob@REALM",
        "hbase://a/n:p?http=1&user=bob@REALM",
        "postgresql://h:5432/db?require_auth=scram-sha-256",
    ],
)
def test_a_user_and_ports_are_no_password(url):
    refuse_secret(url, "PGPASSWORD")


@pytest.mark.parametrize(
    "url", ["rocksdb:/data/tokens=1/x", "rocksdb:my-secret=.db", "rocksdb:/x//y://a:b@c", "memory:"]
)
def test_a_folder_may_have_any_name(url):
    refuse_secret(url, "PGPASSWORD")


def test_a_folder_that_looks_like_a_server_is_refused():
    with pytest.raises(UsageError, match="contains a password"):
        open_store("rocksdb://bob:secret@host", "read")


def test_a_password_in_the_words_of_libpq_is_refused():
    with pytest.raises(UsageError, match=r"contains a password.*PGPASSWORD"):
        open_store("postgresql:host=localhost password=secret", "read")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@host:5432/news?application_name=me@here",
        "postgresql://me@host:5432,other:5433/news",
        "postgresql://me@host:5432/news?passfile=/run/passwords",
        "postgresql://me@[::1]:5432/news?application_name=me@here",
        "postgresql://host:5432/news?application_name=me@here",
    ],
)
def test_a_port_is_no_password(url):
    refuse_secret(url, "PGPASSWORD")
    assert postgresql.parse(url).server["dbname"] == "news"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://h?prefix=a&prefix=b", "prefix is given twice"),
        ("postgresql://h/d?schema=a&timeout=1&schema=b", "schema is given twice"),
        ("redis://db..org", "'db..org' is not the name of a host"),
        ("postgresql://db..org/d", "'db..org' is not the name of a host"),
        ("postgresql://a,db..org/d", "'db..org' is not the name of a host"),
        (f"hbase://{'h' * 64}:9090/p", "'hhh.*' is not the name of a host"),
        ("hbase://h:9090/p?thrift2=db..org:9091", "thrift2=db..org:9091 is not a port"),
    ],
)
def test_a_host_without_a_name_and_an_option_given_twice_are_refused(url, reason):
    """The last option counted. Redis said that others had written to the keys of this store."""
    with pytest.raises(UsageError, match=reason):
        open_store(url, "read")


def test_hosts_may_be_folders_and_end_with_a_dot():
    assert postgresql.parse("postgresql:///d?host=/run/../tmp,@x..y,db.org.").server["dbname"] == "d"
    assert redis.parse("redis://db.org.").host == "db.org."
    assert redis.parse("redis://[::1]").host == "::1"


def test_a_port_of_redis_is_no_password():
    refuse_secret("redis://me@host:6379/3", "REDISCLI_AUTH")
    assert redis.parse("redis://me@host:6379/3").port == 6379


def test_options_are_given_to_libpq_as_they_are():
    url = "postgresql://host/news?options=-c%20geqo%3Doff%20-c%20jit%3D1+1&sslrootcert=/my%20certs/ca.pem"
    server = postgresql.parse(url).server
    assert server["options"] == "-c geqo=off -c jit=1+1"
    assert server["sslrootcert"] == "/my certs/ca.pem"


@pytest.mark.parametrize("set_by", ["-c%20x.y%3Dsecret", "-cx.y=secret", "-c%20jit=0%20--x.y=secret"])
def test_a_parameter_that_postgresql_does_not_know_is_set_elsewhere(set_by):
    with pytest.raises(UsageError, match=r"sets x\.y, .* by PGOPTIONS") as refused:
        postgresql.parse(f"postgresql://host/news?options={set_by}")
    assert "=secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://h/0?pw=hunter",
        "redis://h/0?prefix=*&pw=hunter",
        "redis://h/x?pw=hunter",
        "redis://h/0?timeout=x&pw=hunter",
        "redis://h/0?ca=x&prefix=hunter",
        "postgresql://h/0?pw=hunter",
        "postgresql://h/0?pw=hunter=hunter",
        "postgresql://[h/0?pw=hunter",
        "postgresql://h/0?pw=hunter&schema=X",
        "hbase://h/0?pw=hunter",
        "hbase://h/0?pw=hunter&x",
        "hbase://h:x/0?pw=hunter",
        "unknown://h/0?pw=hunter",
    ],
)
def test_values_of_options_are_not_shown_where_a_url_is_wrong(url):
    with pytest.raises(UsageError) as refused:
        open_store(url, "read")
    assert "hunter" not in str(refused.value)
    assert url.partition("?")[0] in str(refused.value)


@pytest.mark.parametrize("url", [b"redis://bob:secret@h", ["redis://bob:secret@h"]])
def test_a_password_in_what_is_no_text_is_not_shown(url):
    with pytest.raises(UsageError, match="is not the URL of a store") as refused:
        open_store(url, "read")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "as_shown"),
    [
        (" https://u:secret@h/x?y=secret", " https://h/x"),
        ("HTTPS://u:secret@h/x", "HTTPS://h/x"),
        ("https:/u:secret@h/x", "https:/h/x"),
        ("'ftp://u:secret@h/x'", "'ftp://u@h/x'"),
        ("https://u:se/cret@h/x", "https://h/x"),
        ("https://u:12@h:8/x", "https://h:8/x"),
        ("file://u:secret@h/x", "file://u@h/x"),
        ("jdbc:postgresql://u:secret@h/x", "jdbc:postgresql://u@h/x"),
        ("https:\\\\u:secret@h\\x", "https:\\\\h\\x"),
        ("ftp://u%3Asecret@h/x", "ftp://u@h/x"),
        ("postgresql://u:secret%40h/x", "postgresql://u@h/x"),
        ("jdbc:sqlserver://h;user=u;password=secret", "jdbc:sqlserver://h;user=...;password=..."),
        ("redis://u:se;cret@h/0", "redis://u@h/0"),
        ("redis://h/0?a=secret&b=secret#c=secret", "redis://h/0?a=...&b=...#c=..."),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("a:b@c", "a:b@c"),
        ("./s3://u:p@x", "./s3://u:p@x"),
        ("C:/u:p@x", "C:/u:p@x"),
    ],
)
def test_what_is_shown_of_a_url(name, as_shown):
    assert redacted(name) == as_shown


@pytest.mark.parametrize(
    ("text", "as_shown"),
    [
        ("No such command 'postgres://u:secret@h/x'.", "No such command 'postgres://u@h/x'."),
        ("(redis://u:se/cret@h/0) and http://u:secret@h/x", "(redis://u@h/0) and http://h/x"),
        ("No such option: --hbase://u:secret@h", "No such option: --hbase://u@h"),
        ("no 's3://u%3asecret@h' and ftp://u:secret%40h", "no 's3://u@h' and ftp://u@h"),
        ("gs://h/x?X-Api-Key=secret: refused", "gs://h/x?X-Api-Key=... refused"),
        ("jdbc:postgresql://h/x?password=secret: refused", "jdbc:postgresql://h/x?password=... refused"),
        (
            "see https://h/@user/a?b=c and redis://h:6379/0.",
            "see https://h/@user/a?b=c and redis://h:6379/0.",
        ),
        ("a:b@c, author=smith", "a:b@c, author=smith"),
        ("no file 'host=h password=secret user=u'", "no file 'host=h password=... user=u'"),
        ("password = 'se cret' dbname=d", "password = ... dbname=d"),
        ("PGPASSWORD=secret: not found", "PGPASSWORD=... not found"),
        ("'u:secret@h/x' and //u:secret@h:5432", "'u@h/x' and //u@h:5432"),
        ("u:s@cret@h/x and u:secret@[::1]:5432", "u@h/x and u@[::1]:5432"),
        ("no file 'Authorization: Bearer secret'", "no file 'Authorization: Bearer ...'"),
        ("authorization:secret, x", "authorization:... x"),
        ("abfs://c@a.dfs/x?sv=1&sig=secret", "abfs://c@a.dfs/x?sv=1&sig=..."),
        ("https://secret@h/x, https://h/y?key=secret", "https://h/x, https://h/y"),
        ("give it by token=, or token= of the client", "give it by token=, or token= of the client"),
        ("data/token=1/x.jsonl, sigma=1, mailto:joe@h", "data/token=1/x.jsonl, sigma=1, mailto:joe@h"),
    ],
)
def test_messages_show_no_password_of_a_url_in_a_wrong_place(text, as_shown):
    assert without_passwords(text) == as_shown


def refusing(answer: Callable[[bytes], bytes], *greeting: bytes) -> int:
    """The port of a server that answers what it is sent behind a greeting, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            for each in greeting:
                connection.recv(1 << 16)
                connection.sendall(each)
            connection.sendall(answer(connection.recv(1 << 16)))
            connection.recv(1)

    Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def of_postgresql(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) + 4).to_bytes(4) + content


@pytest.mark.parametrize("where", ["a variable", "a file"])
def test_a_password_that_a_postgresql_repeats_is_not_shown(where, tmp_path, monkeypatch):
    said = "no login with  hunt er"

    def answer(_password: bytes) -> bytes:
        return of_postgresql(b"E", b"SFATAL\0C28P01\0M" + said.encode() + b"\0\0")

    port = refusing(answer, of_postgresql(b"R", (3).to_bytes(4)))
    if where == "a variable":
        monkeypatch.setenv("PGPASSWORD", "hunt er")
    else:
        (tmp_path / "passwords").write_text("*:*:*:*:hunt er\n")
        (tmp_path / "passwords").chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", f"{tmp_path}/passwords")
    with pytest.raises(SimhbaseError, match=r"no login with \.\.\."):
        open_store(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable&timeout=1", "read")


@pytest.mark.parametrize("named", ["in the URL", "by a service"])
def test_a_password_that_one_of_several_postgresql_repeats_is_not_shown(named, tmp_path, monkeypatch):
    """Each has its own in the file, and that of the last was looked for."""

    def answer(password: bytes) -> bytes:
        said = b"SFATAL\0C57P03\0Mnot now, " + password[5:-1]  # so that the next one is tried
        return of_postgresql(b"E", said + b"\0\0")

    cleartext = of_postgresql(b"R", (3).to_bytes(4))
    ports = [refusing(answer, cleartext), refusing(answer, cleartext)]
    secrets = [r"the \:first", "the second"]
    lines = [f"127.0.0.1:{port}:*:u:{secret}\n" for port, secret in zip(ports, secrets, strict=True)]
    (tmp_path / "passwords").write_text("".join(lines))
    (tmp_path / "passwords").chmod(0o600)
    hosts, options = ",".join(f"127.0.0.1:{port}" for port in ports), "sslmode=disable&gssencmode=disable"
    if named == "in the URL":
        monkeypatch.setenv("PGPASSFILE", f"{tmp_path}/passwords")
        url = f"postgresql://u@{hosts}/d?{options}"
    else:
        (tmp_path / "services").write_text(
            f"[all]\nhost=127.0.0.1,127.0.0.1\nport={ports[0]},{ports[1]}\nuser=u\n"
            f"passfile={tmp_path}/passwords\n"
        )
        monkeypatch.setenv("PGSERVICEFILE", f"{tmp_path}/services")
        url = f"postgresql:///d?service=all&{options}"
    with pytest.raises(SimhbaseError, match=r"not now, \.\.\.(.|\n)*not now, \.\.\.") as caught:
        open_store(f"{url}&timeout=1", "read")
    shown = "".join(format_exception(caught.value))
    assert not re.search("first|the second", shown)


def test_a_password_that_a_postgresql_repeats_behind_the_login_is_not_shown(monkeypatch):
    def answer(_statement: bytes) -> bytes:
        return of_postgresql(b"E", b"SERROR\0C2BP01\0Mnothing for hunter\0Dof hunter\0\0") + ready

    told = (b"server_version\x0016.1\0", b"client_encoding\0UTF8\0")
    welcome = [of_postgresql(b"R", bytes(4)), *(of_postgresql(b"S", each) for each in told)]
    ready = of_postgresql(b"Z", b"I")
    greeted = b"".join([*welcome, of_postgresql(b"K", bytes(8)), ready])
    port = refusing(answer, of_postgresql(b"R", (3).to_bytes(4)), greeted)
    monkeypatch.setenv("PGPASSWORD", "hunter")
    with pytest.raises(StoreFailed, match=r"nothing for \.\.\.: of \.\.\.\. Drop these first") as caught:
        open_store(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&gssencmode=disable&timeout=1", "read")
    assert "hunter" not in "".join(format_exception(caught.value))


def test_a_password_that_a_redis_repeats_is_not_shown(monkeypatch):
    """As one does in which AUTH is renamed."""
    port = refusing(lambda sent: b"-ERR unknown command 'AUTH', with args: '%s'\r\n" % sent.split()[-1])
    monkeypatch.setenv("REDISCLI_AUTH", "hunter")
    with pytest.raises(SimhbaseError, match=r"unknown command 'AUTH', with args: '\.\.\.'") as caught:
        open_store(f"redis://127.0.0.1:{port}?timeout=1", "read")
    assert "hunter" not in "".join(format_exception(caught.value))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"-ERR hunter may not\r\n" * 3, r"ERR \.\.\. may not"),
        (b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n:1\r\n*2\r\n$6\r\nhunter\r\n$1\r\n1\r\n", r"base 10: b'\.\.\.'"),
    ],
    ids=["an error", "a number"],
)
def test_a_password_that_a_redis_repeats_behind_the_login_is_not_shown(monkeypatch, answer, said):
    port = refusing(lambda _: answer, b"+OK\r\n", b"+OK\r\n")
    monkeypatch.setenv("REDISCLI_AUTH", "hunter")
    with pytest.raises(StoreFailed, match=said) as caught:
        open_store(f"redis://127.0.0.1:{port}?timeout=1", "read")
    assert "hunter" not in "".join(format_exception(caught.value))


def test_a_terminal_is_not_given_what_a_server_says_as_it_is(tmp_path):
    """It obeyed what a warning of a server that was waited for held."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener, ExitStack() as connections:

        def serve() -> None:
            with suppress(OSError):  # it is shut down
                while True:
                    connection = connections.enter_context(listener.accept()[0])
                    connection.sendall(b"-LOADING \x1b]0;obeyed\x07\r\n" * 100)

        serving = Thread(target=serve, daemon=True)
        serving.start()
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}?timeout=5"
        done = run_alone("stats", "--store", url, cwd=tmp_path)
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()
    assert done.returncode == 11
    waiting, error = done.stderr.decode().splitlines()
    assert waiting.startswith("waiting for opening redis://")
    assert r"LOADING \x1b]0;obeyed\x07" in waiting
    assert r"LOADING \x1b]0;obeyed\x07" in error


@pytest.mark.parametrize(
    ("part", "pause", "error", "said"),
    [
        (b"$-1\r\n" * 200_000, 0.0, StoreFailed, "an answer has more than 1 MiB"),
        (b"$-1\r\n", 0.1, StoreUnreachable, "timed out"),
    ],
    ids=["a flood", "drops"],
)
def test_an_answer_of_redis_without_end_is_given_up(monkeypatch, part, pause, error, said):
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection, suppress(OSError):
            connection.sendall(b"*10000000\r\n")
            while True:
                connection.sendall(part)
                sleep(pause)

    Thread(target=serve, daemon=True).start()
    begun = monotonic()
    with pytest.raises(error, match=said):
        open_store(f"redis://127.0.0.1:{listener.getsockname()[1]}?timeout=1", "read")
    assert monotonic() - begun < 10


def test_an_answer_of_redis_for_which_there_is_no_memory_is_an_error_of_the_store():
    """Its parser takes memory for as many elements as an answer says that it has."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection, suppress(OSError):
            connection.sendall(b"*2147483647\r\n")
            connection.recv(1 << 16)
            sleep(10)

    Thread(target=serve, daemon=True).start()
    limited = 'ulimit -v 4000000 && exec "$0" -m simhbase stats --store "$1"'
    url = f"redis://127.0.0.1:{listener.getsockname()[1]}?timeout=5"
    done = subprocess.run(["bash", "-c", limited, sys.executable, url], capture_output=True, check=False)
    assert (done.returncode, b"an answer takes more memory than is left" in done.stderr) == (1, True)


@pytest.mark.parametrize("part", ["[", "[a", "[]", ":1", "a@[", ":"])
def test_a_place_of_a_url_takes_time_linear_in_its_length(part):
    """Brackets that no other closes took 9 s in 80 kB."""

    def seconds(size: int) -> float:
        begun = process_time()
        redacted("http://" + part * size)
        return process_time() - begun

    assert min(seconds(40_000) for _ in range(3)) < 8 * seconds(10_000) + 0.1


def test_messages_are_searched_for_urls_in_linear_time():
    def seconds(text: str) -> float:
        begun = process_time()
        without_passwords(text)
        return process_time() - begun

    for part in (
        "a://b:",
        "a",
        "a:",
        "a:/",
        "x://y@",
        "://",
        "token",
        "token=",
        "pass =",
        "a:b@h",
        "//u:",
        "authorization: ",
    ):
        assert min(seconds(part * 40_000) for _ in range(3)) < 8 * seconds(part * 10_000) + 0.1


@pytest.mark.parametrize("name", ["ca", "cert", "key"])
def test_redis_reads_its_certificates_from_files(name: str, tmp_path: Path) -> None:
    """OpenSSL waits for the writer of a pipe, and in a service the requests wait with it."""
    path = tmp_path / "pem"
    url = f"rediss://h?{name}={path}"
    with pytest.raises(UsageError, match="pem is not a file that exists"):
        redis.parse(url)
    path.touch()
    address = redis.parse(url)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="pem is not a file that exists"):
        redis.parse(url)
    with socket.socket() as plain, pytest.raises(OSError, match="it is a pipe"):
        encrypted(plain, address)


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey", "sslcrl"])
def test_postgresql_waits_for_no_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pem")
    with pytest.raises(UsageError, match="pem is a pipe"):
        postgresql.parse(f"postgresql://h/x?{name}={tmp_path}/pem")


@pytest.mark.parametrize(
    "option",
    [
        "sslmode=bogus",
        "sslmode=allow&sslrootcert=system",
        "target_session_attrs=x",
        "ssl_min_protocol_version=x",
        "port=x",
        "port=99999",
        "keepalives=x",
        "connect_timeout=x",
        "host=a,b,c&port=1,2",
        "service=nowhere",
    ],
)
def test_a_wrong_value_of_an_option_of_libpq_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=r"^postgresql://.*: \w"):
        postgresql.parse(f"postgresql://nowhere.example/x?{option}")


@pytest.mark.parametrize(
    "rest",
    [
        "h/x?sslmode=verify-full&sslrootcert=system&keepalives_idle=-1",
        "a,b:2,c/x?target_session_attrs=read-write&load_balance_hosts=random",
        "a:1,b:2/x",
        "/x?host=/var/run/postgresql",
        "h/x?hostaddr=192.0.2.1&connect_timeout=5",
        "/x",
        "",
    ],
)
def test_what_libpq_takes_is_taken(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    postgresql.parse(f"postgresql://{rest}")
    monkeypatch.setenv("PGHOST", "a,b")
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1,192.0.2.2")
    monkeypatch.setenv("PGPORT", "1")
    postgresql.parse(f"postgresql://{rest}")
