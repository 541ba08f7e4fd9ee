"""URLs of stores in PostgreSQL and Redis."""

import pytest

from simhbase.errors import UsageError
from simhbase.online.client import Client
from simhbase.stores import open_store
from simhbase.stores.postgresql import url as postgresql
from simhbase.stores.redis import url as redis
from simhbase.urls import refuse_secret

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
    "host/0?options=-c%20x.password%3Dsecret",
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


def test_a_port_of_redis_is_no_password():
    refuse_secret("redis://me@host:6379/3", "REDISCLI_AUTH")
    assert redis.parse("redis://me@host:6379/3").port == 6379


def test_options_are_given_to_libpq_as_they_are():
    url = "postgresql://host/news?options=-c%20geqo%3Doff%20-c%20a.b%3D1+1&sslrootcert=/my%20certs/ca.pem"
    server = postgresql.parse(url).server
    assert server["options"] == "-c geqo=off -c a.b=1+1"
    assert server["sslrootcert"] == "/my certs/ca.pem"
