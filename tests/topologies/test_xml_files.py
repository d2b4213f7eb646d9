"""XML of other tools: files that are read, and files that are refused in one line and bounded time."""

import time

import pytest

from tutti.topologies.errors import InputError
from tutti.topologies.xml_files import parse_xml, read_xml


def test_elements_attributes_and_lines():
    root = parse_xml('<?xml version="1.0"?>\n<!-- c -->\n<a x="1">\n text <b/>\n<c y="2" z=""/></a>', "t")
    assert (root.tag, root.attributes, root.line) == ("a", {"x": "1"}, 3)
    assert [(child.tag, child.line, child.attributes) for child in root.children] == [
        ("b", 4, {}),
        ("c", 5, {"y": "2", "z": ""}),
    ]
    assert [child.tag for child in root.each("c")] == ["c"]


def test_whole_numbers_of_a_range():
    root = parse_xml('<a one="1" far="99999999999999999999" half="0.5"/>', "t")
    assert root.integer("one", 0, 5) == 1
    assert root.integer("none", 0, 5, default=3) == 3
    for name in ("far", "half", "none"):
        with pytest.raises(InputError, match=f"t, line 1: <a> has .*{name}"):
            root.integer(name, 0, 5)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'<!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHS}]><a>&l9;</a>', "document type"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a b="&x;"/>', "document type"),
        ('<!DOCTYPE a SYSTEM "http://localhost/a.dtd"><a/>', "document type"),
        ("<a>&x;</a>", "line 1: not XML: undefined entity"),
        ("<a>\n<b>", "line 2: not XML: .*cut off"),
        ('<a b="1', "line 1: not XML"),
        ("<a b='1' b='2'/>", "line 1: not XML: duplicate attribute"),
        ("", "not XML: no element found"),
        ("[1, 2]", "line 1: not XML"),
        ("<a>" * 10**5, "nested too deeply; at most 64"),
        ("<a>" + "<b/>" * 10**6 + "</a>", "too many elements; at most 65536"),
    ],
)
def test_bad_xml_is_one_line_in_bounded_time(text, words):
    start = time.perf_counter()
    with pytest.raises(InputError, match=words) as caught:
        parse_xml(text, "t")
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2


def test_errors_are_short_whatever_a_file_has_in_it(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(f"<{'a' * 10**6} b='{'1' * 10**6}'/>")
    for name in ("b", "c"):
        with pytest.raises(InputError, match="has ") as caught:
            read_xml(path).integer(name, 0, 5)
        assert len(str(caught.value)) < len(str(path)) + 200
    with pytest.raises(InputError, match="too long"):
        read_xml(path, most_bytes=10**6)


def test_files_in_other_encodings_are_refused(tmp_path):
    path = tmp_path / "a.xml"
    path.write_bytes('<a b="é"/>'.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8 text, at byte 6"):
        read_xml(path)
    path.write_bytes('\ufeff<?xml version="1.0" encoding="iso-8859-1"?><a b="é"/>'.encode())
    assert read_xml(path).attributes == {"b": "é"}
