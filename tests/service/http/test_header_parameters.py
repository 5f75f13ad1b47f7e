"""Parameters of headers: what clients send is read, and what cannot be read is refused."""

import re

import pytest

from service.http.header_parameters import parse_parameters, split_value
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("; charset=utf-8", {"charset": "utf-8"}),
        (';Charset="UTF-8" ; profile=x', {"charset": "UTF-8", "profile": "x"}),
        ("; charset = utf-8", {"charset": "utf-8"}),
        (r'; name="a;b\"c\\d"; filename=x', {"name": r'a;b"c\d', "filename": "x"}),
        ('; filename="é.png"', {"filename": "é.png"}),
        ("; utf-8", {}),
        (";; ; a=b;", {"a": "b"}),
        ('; a=""', {"a": ""}),
    ],
)
def test_parameters_are_read_as_clients_write_them(text, found):
    assert parse_parameters(text) == found


@pytest.mark.parametrize(
    "text",
    ['; a="', '; a="\\"', "; a=", "; a=b c", "; a=b, c", "; (a)=b", "; a=(b)", '; a="b"c', "; a=b; A=c", "; a=\x00"],
)
def test_parameters_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="parameters: "):
        parse_parameters(text)


def test_the_value_before_the_parameters_is_in_lower_case():
    assert split_value(" Image/PNG ; a=B") == ("image/png", "; a=B")
    assert split_value("text/plain") == ("text/plain", "")


def test_no_module_parses_headers_or_forms_with_parsers_that_take_long():
    """email.message scans a quoted string again at each semicolon in it, Starlette's forms decode by any codec."""
    code = [file.read_text() for file in (ROOT / "service").rglob("*.py")]
    assert code
    assert not [
        text
        for text in code
        if re.search(r"^\s*(from|import) (email|python_multipart)|formparsers|\.form\(", text, re.M)
    ]
