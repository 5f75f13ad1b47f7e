import pytest

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.model_card import read_widget

BODY = "\n# A model\n\nIt <b>reads</b> texts.\n\n---\n\nwidget:\n- text: prose is not read\n"


def read(folder, front, body=BODY):
    (folder / "README.md").write_text(f"---\n{front}\n---\n{body}", encoding="utf-8")
    return read_widget(Checkpoint(folder, {}, {}))


def test_the_texts_of_the_widget_are_read_and_titles_are_not(tmp_path):
    front = 'license: mit\nwidget:\n- text: "It rained."\n  example_title: Rain\n- text: Tea?\n  output: {url: x.png}'
    assert read(tmp_path, front) == ([("It rained.",), ("Tea?",)], [])


def test_pairs_and_sentences_to_compare_are_two_texts_each(tmp_path):
    front = "widget:\n- text: one\n  text_pair: two\n- source_sentence: a\n  sentences: [b, c, 3]\n  example_title: t"
    assert read(tmp_path, front) == ([("one", "two"), ("a", "b"), ("a", "c"), ("a", "3")], [])


@pytest.mark.parametrize("none", ["null", "Null", "~", ""])
def test_what_is_no_value_is_no_text(tmp_path, none):
    assert read(tmp_path, f"widget:\n- text: one\n  text_pair: {none}")[0] == [("one",)]
    assert read(tmp_path, f"widget:\n- text: {none}")[0] == []


@pytest.mark.parametrize("number", ["1" + ":59" * 300_000, "!!int 1" + ":59" * 300_000, "0x" + "f" * 900_000])
@pytest.mark.timeout(10)
def test_a_number_is_not_computed(tmp_path, number):  # of base 60 it would take the square of its length
    assert read(tmp_path, f"size: {number}\nwidget:\n- text: one")[0] == [("one",)]


def test_addresses_are_not_fetched_and_that_is_said(tmp_path):
    texts, faults = read(tmp_path, "widget:\n- src: https://example.com/cat.png\n  example_title: Cat\n- text: kept")
    assert texts == [("kept",)]
    assert faults == ["example left out: src is an address, which is not fetched; see --example"]


@pytest.mark.parametrize("entry", ["{text: [a]}", "words", "[a]", "null", "{messages: []}", "{}"])
def test_an_entry_without_a_text_is_left_out_and_the_others_stay(tmp_path, entry):
    texts, faults = read(tmp_path, f"widget:\n- {entry}\n- text: kept")
    assert texts == [("kept",)]
    assert faults == ["example left out: must have a text"]


@pytest.mark.parametrize("front", ["", "license: mit", "widget:", "widget: ~", "widget: []", "# nothing"])
def test_a_card_without_a_widget_has_no_examples(tmp_path, front):
    assert read(tmp_path, front) == ([], [])


def test_a_checkpoint_without_a_card_or_a_card_without_a_front_has_no_examples(tmp_path):
    assert read_widget(Checkpoint(tmp_path, {}, {})) == ([], [])
    (tmp_path / "README.md").write_text("# A model\n\nwidget:\n- text: x\n")
    assert read_widget(Checkpoint(tmp_path, {}, {})) == ([], [])


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        ("widget: [", "is not read: ParserError"),
        ("widget: - text: a: b", "is not read: ScannerError"),
        ("- text: a", "is not read: AttributeError"),
        ("widget: !!python/object/apply:os.system ['true']", "example left out: must have a text"),
        ("widget: false", "is not read: widget must be a list"),
        ("widget: {text: a}", "is not read: widget must be a list"),
        ("widget: words", "is not read: widget must be a list"),
        ("widget: " + "[" * 3000, "is not read: ScannerError"),
        ("a: &a {text: x}\nwidget:\n- <<: *a", "example left out: must have a text"),  # a bomb of merged keys
        ("a: " + "x" * (1 << 20), f"is not read: at most {1 << 20} bytes, given {(1 << 20) + 12 + len(BODY)}"),
    ],
)
def test_a_card_that_cannot_be_read_is_left_out(tmp_path, front, fault):
    assert read(tmp_path, front) == ([], [fault])


def test_a_card_in_another_encoding_is_left_out(tmp_path):
    (tmp_path / "README.md").write_bytes(b"---\nwidget:\n- text: caf\xe9\n---\n")
    assert read_widget(Checkpoint(tmp_path, {}, {})) == ([], ["is not read: UnicodeDecodeError"])


def test_signs_of_a_merge_in_the_prose_are_no_fault(tmp_path):
    assert read(tmp_path, "widget:\n- text: a", f"{BODY}\n```\ncat <<EOF\n```\n") == ([("a",)], [])


def test_a_card_with_thousands_of_entries_is_read_in_part(tmp_path):
    assert len(read(tmp_path, "widget:\n" + "- text: a\n" * 3000)[0]) == 100


def test_a_list_that_many_entries_share_is_read_in_part(tmp_path):
    shared = "s: &s [" + "a," * 1000 + "a]\nwidget:\n" + "- {source_sentence: x, sentences: *s}\n" * 200
    assert len(read(tmp_path, shared)[0]) == 100 * 100
