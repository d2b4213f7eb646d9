"""What a certificate proves, in words."""

from tutti.models.bounds.bound import SENTENCES, sentence
from tutti.models.bounds.check import PROOFS
from tutti.topologies.text import parse_topology


def test_each_kind_has_a_sentence():
    assert SENTENCES.keys() == PROOFS.keys()


def test_a_kind_without_a_sentence_has_its_certificate_written_out():
    said = sentence("new", {"rank": 3, "links": list(range(30))}, parse_topology("ring:4"))
    assert said == "rank 3, links [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1..."
