"""URLs of stores in PostgreSQL and Redis."""

import pytest

from simhbase.errors import UsageError
from simhbase.stores.postgresql import url as postgresql
from simhbase.stores.redis import url as redis


@pytest.mark.parametrize("parse", [postgresql.parse, redis.parse])
@pytest.mark.parametrize(
    "rest",
    [
        "me:secret@host/0",
        "me:12@host/0",
        "me:se/cret@host/0",
        "me:se?cret@host/0",
        ":se#cret@host/0",
        "me:s@cret@host/0",
        "host/0?password=secret",
        "host/0?sslpassword=secret",
    ],
)
def test_a_password_is_refused_and_not_shown(parse, rest):
    scheme = "redis" if parse is redis.parse else "postgresql"
    with pytest.raises(UsageError, match="contains a password") as refused:
        parse(f"{scheme}://{rest}")
    assert "cret" not in str(refused.value)
    assert "12" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@host:5432/news?application_name=me@here",
        "postgresql://me@host:5432,other:5433/news",
        "postgresql://me@[::1]:5432/news?application_name=me@here",
        "postgresql://host:5432/news?application_name=me@here",
    ],
)
def test_a_port_is_no_password(url):
    assert postgresql.parse(url).server["dbname"] == "news"


def test_a_port_of_redis_is_no_password():
    assert redis.parse("redis://me@host:6379/3").port == 6379


def test_options_are_given_to_libpq_as_they_are():
    url = "postgresql://host/news?options=-c%20geqo%3Doff%20-c%20a.b%3D1+1&sslrootcert=/my%20certs/ca.pem"
    server = postgresql.parse(url).server
    assert server["options"] == "-c geqo=off -c a.b=1+1"
    assert server["sslrootcert"] == "/my certs/ca.pem"
