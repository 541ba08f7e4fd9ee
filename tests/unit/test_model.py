from simhbase.model.values import Claim, Lookup, Match


def test_a_lookup_is_a_container_of_its_matches():
    near, far = Match(1, "a", 7), Match(3, "b", 8)
    lookup = Lookup(7, (near,))
    assert lookup
    assert len(lookup) == 1
    assert list(lookup) == [near]
    assert near in lookup
    assert far not in lookup
    assert not Lookup(7)
    assert not Lookup(None, reason="the text has no words")


def test_a_claim_is_true_when_it_is_accepted():
    assert Claim("a", "accepted", 7)
    for outcome in ("duplicate", "rejected", "conflict", "undecided"):
        assert not Claim("a", outcome, 7)
