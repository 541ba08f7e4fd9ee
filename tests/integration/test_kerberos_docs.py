"""A newcomer with a keytab does what docs/kerberos.md says."""

from collections.abc import Iterator

import pytest

from tests.command_line import result
from tests.examples import Reader, blocks, page, write_articles
from tests.kerberos import Realm

DROP = """
%w(index fingerprints documents obsolete meta).each do |table|
  begin
    disable "texts:news_#{table}"
    drop "texts:news_#{table}"
  rescue
  end
end
begin
  drop_namespace 'texts'
rescue
end
puts # ends the line that a rescued command may have begun
"""
ARTICLES = 40  # of the demo's


@pytest.fixture
def emptied(kerberos: Realm) -> Iterator[Realm]:
    kerberos.cluster.shell(DROP)
    yield kerberos
    kerberos.cluster.shell(DROP)


@pytest.mark.full
@pytest.mark.kerberos
@pytest.mark.usefixtures("patient")
def test_a_newcomer_with_a_keytab_uses_a_secured_hbase(emptied, tmp_path):
    realm = emptied
    write_articles(tmp_path)
    articles = tmp_path / "articles.jsonl"
    articles.write_bytes(b"".join(articles.read_bytes().splitlines(keepends=True)[:ARTICLES]))
    reader = Reader(tmp_path)
    reader.variables = realm.without_ticket()
    for language, block in blocks(page("docs/kerberos.md")):
        if language == "ruby kerberos":
            realm.cluster.shell(block)
        elif language == "console kerberos":
            gateway, thrift2 = realm.cluster.description["gateways"][0], realm.cluster.description["thrift2"]
            for shown, real in (
                ("FILE:/etc/security/loader.keytab", realm.keytab("loader")),
                ("gateway.example.org:9090", gateway),
                ("thrift2=9091", f"thrift2={thrift2}"),
            ):
                assert shown in block
                block = block.replace(shown, real)
            reader.follow("console", block)
    stored = result("stats", "--exact", cwd=tmp_path, **reader.variables)["documents"]
    assert stored == ARTICLES
