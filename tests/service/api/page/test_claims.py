"""What docs/page.md says that the page can do: each row names its tests."""

import re

from tests.conftest import ROOT

TEXT = (ROOT / "docs/page.md").read_text(encoding="utf-8")
TESTS = {
    name
    for path in (ROOT / "tests/page").glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_every_test_that_is_named_is_there():
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 30
    assert named - TESTS == set()


def test_the_number_of_interactions_is_that_of_the_rows_that_have_a_test():
    rows = re.findall(r"^\| [^|]+ \| (yes|no) \| (.*)\|$", TEXT, re.MULTILINE)
    assert [bool(tests.strip()) for _, tests in rows] == [said == "yes" for said, _ in rows]
    done = sum(said == "yes" for said, _ in rows)
    assert f"These are {done} of the {len(rows)} interactions" in TEXT
