"""URLs of HBase stores."""

import sys

import pytest

from simhbase.errors import UsageError
from simhbase.stores import open_store
from simhbase.stores.hbase.url import Address, Gateway, Kerberos, parse


def test_a_host_is_enough():
    assert parse("hbase://h") == Address("hbase://h", (Gateway("h", 9090),), "default", "simhbase")


def test_a_url_says_everything(tmp_path):
    authority = tmp_path / "ca.pem"
    authority.touch()
    url = f"hbase://a:1,b.example:2,[::1]:3/ns:p?thrift2=9&connections=3&timeout=2.5&tls=1&ca={authority}"
    assert parse(url) == Address(
        url,
        gateways=(Gateway("a", 1), Gateway("b.example", 2), Gateway("::1", 3)),
        namespace="ns",
        prefix="p",
        gateways2=(Gateway("a", 9), Gateway("b.example", 9), Gateway("::1", 9)),
        connections=3,
        timeout=2.5,
        tls=True,
        certificates=authority,
    )


def test_a_url_says_how_to_authenticate(tmp_path):
    certificate = tmp_path / "client.pem"
    certificate.touch()
    sasl = parse(f"hbase://h/?kerberos=hbase/g.example&qop=auth-int&tls=1&cert={certificate}")
    assert sasl.kerberos == Kerberos("hbase", "g.example", "auth-int")
    assert sasl.certificate == certificate
    http = parse("hbase://h/?http=1&kerberos=HTTP&user=news")
    assert (http.http, http.kerberos, http.user) == (True, Kerberos("HTTP"), "news")


def test_kerberos_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(UsageError, match=r"pip install 'simhbase\[kerberos\]'"):
        open_store("hbase://h/?kerberos=hbase", "read")


def test_thrift2_may_be_on_another_host():
    assert parse("hbase://a:1/?thrift2=b:2").gateways2 == (Gateway("b", 2),)


def test_a_gateway_named_twice_is_one():
    assert parse("hbase://a:1,a:1/").gateways == (Gateway("a", 1),)


def test_an_address_of_version_6_is_shown_in_brackets():
    assert str(Gateway("::1", 9090)) == "[::1]:9090"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hbase:", "'' is not HOST:PORT"),
        ("hbase:h:1", "'' is not HOST:PORT"),
        ("hbase:///p", "'' is not HOST:PORT"),
        ("hbase://h:1,/p", "'' is not HOST:PORT"),
        ("hbase://h:0/p", "'h:0' is not HOST:PORT"),
        ("hbase://h:65536/p", "'h:65536' is not HOST:PORT"),
        ("hbase://h:port/p", "'h:port' is not HOST:PORT"),
        ("hbase://u@h:1/p", "'u@h:1' is not HOST:PORT"),
        ("hbase://::1:9090/p", "'::1:9090' is not HOST:PORT"),
        ("hbase://h:1/a/b", r"'a/b' is not \[NAMESPACE:\]PREFIX"),
        ("hbase://h:1/:p", r"':p' is not \[NAMESPACE:\]PREFIX"),
        ("hbase://h:1/n s:p", r"'n s:p' is not \[NAMESPACE:\]PREFIX"),
        ("hbase://h:1/ns:", r"'ns:' is not \[NAMESPACE:\]PREFIX"),
        ("hbase://h:1/-p", r"'-p' is not \[NAMESPACE:\]PREFIX"),
        ("hbase://h:1/p?lane=3", "no option 'lane', there are thrift2, connections, timeout, tls, ca, "),
        ("hbase://h:1/p?connections", "its options are not NAME=VALUE"),
        ("hbase://h:1/p?connections=1&connections=2", "an option is given twice"),
        ("hbase://h:1/p?connections=0", "connections=0 is not a number from 1 to 64"),
        ("hbase://h:1/p?connections=x", "connections=x is not a number from 1 to 64"),
        ("hbase://h:1/p?connections=", "connections= is not a number from 1 to 64"),
        ("hbase://h:1/p?timeout=0", "timeout=0 is not a positive number of seconds"),
        ("hbase://h:1/p?timeout=nan", "timeout=nan is not a positive number of seconds"),
        ("hbase://h:1/p?timeout=inf", "timeout=inf is not a positive number of seconds"),
        ("hbase://h:1/p?thrift2=", "thrift2= is not a port"),
        ("hbase://h:1/p?thrift2=abc", "thrift2=abc is not a port, or HOST:PORT"),
        ("hbase://h:1/p?thrift2=[::1]", "is not a port, or HOST:PORT"),
        ("hbase://h:1/p?thrift2=70000", "thrift2=70000 is not a port"),
        ("hbase://h:1/p?tls=yes", "tls=yes is not 0 or 1"),
        ("hbase://h:1/p?tls=1&ca=/no/such", "ca=/no/such is not a file that exists"),
        (f"hbase://h:1/p?ca={__file__}", "ca= without tls=1 has no effect"),
        (f"hbase://h:1/p?cert={__file__}", "cert= without tls=1 has no effect"),
        ("hbase://h:1/p?kerberos=", "kerberos= is not SERVICE, or SERVICE/HOST"),
        ("hbase://h:1/p?kerberos=hbase/h@REALM", "is not SERVICE, or SERVICE/HOST"),
        ("hbase://h:1/p?kerberos=hbase&qop=none", "qop=none is not one of auth, auth-int, auth-conf"),
        ("hbase://h:1/p?qop=auth", "qop= without kerberos= has no effect"),
        ("hbase://h:1/p?http=1&kerberos=HTTP&qop=auth", "qop= has no effect over HTTP, use tls=1"),
        ("hbase://h:1/p?http=1&kerberos=hbase", "over HTTP the service is HTTP: kerberos=HTTP"),
        ("hbase://h:1/p?kerberos=hbase&user=u", "user= without http=1 has no effect"),
        ("hbase://h:1/p?http=1&user=a%0d%0ab", "is not a user's name"),
    ],
)
def test_a_wrong_url_says_what_is_wrong(url, message):
    with pytest.raises(UsageError, match=message):
        parse(url)
