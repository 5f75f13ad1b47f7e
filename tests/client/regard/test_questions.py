"""The verbs of `regard` that ask: of many inputs each is answered, in words, as JSON or as a table."""

import csv
import io
import json
import shutil
import types

import numpy as np
import pytest
import regard
from regard import command, questions

from tests.client.conftest import SEVEN, answer, data_of, described, detector, told

FOUR = SEVEN.with_name("four.webp")


def run(capsys, *words):
    """Return the exit status, what was printed, and what was printed as an error."""
    status = command.main([str(word) for word in words])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture(autouse=True)
def here(address, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_URL", address)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    """A folder of two pictures, one that is none, a text and a table."""
    found = tmp_path / "pictures"
    found.mkdir()
    shutil.copy(SEVEN, found / "a.png")
    shutil.copy(FOUR, found / "b.webp")
    (found / "c.png").write_text("no picture")
    (found / "notes.txt").write_text("3 mar 2021\n")
    (found / "table.csv").write_text("id,file\n1,a.png\n2,b.webp\n")
    return found


def pipe(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def test_a_folder_is_classified_and_a_bad_file_is_said_beside(capsys, folder):
    status, said, error = run(capsys, "classify", folder, "--top-k", 1)
    names = [line.split("\t")[0] for line in said.splitlines()]
    assert names == [str(folder / "a.png"), str(folder / "b.webp")]
    assert [line.split("\t")[1][0] for line in said.splitlines()] == ["7", "4"]
    assert status == 1
    assert error.startswith(f"{folder}/c.png: picture: must be an image")
    assert error.count("c.png") == 1


def test_answers_are_a_table_or_lines_of_json(capsys, folder):
    status, said, error = run(capsys, "classify", folder / "a.png", folder / "b.webp", "--top-k", 2, "--csv")
    rows = list(csv.DictReader(io.StringIO(said)))
    assert (status, error, list(rows[0])) == (0, "", ["input", "label", "probability"])
    assert [(row["input"], row["label"]) for row in rows[::2]] == [
        (str(folder / "a.png"), "7"),
        (str(folder / "b.webp"), "4"),
    ]
    assert len(rows) == 4
    _, said, _ = run(capsys, "classify", folder / "table.csv", "--column", "file", "--json", "--top-k", 1)
    found = [json.loads(line) for line in said.splitlines()]
    assert [(one["input"], one["labels"][0]["label"]) for one in found] == [("a.png", "7"), ("b.webp", "4")]


def test_lines_of_standard_input_are_texts(capsys, monkeypatch):
    pipe(monkeypatch, b"3 mar 2021\n\n4/5/1999\n")
    status, said, _ = run(capsys, "generate", "-")
    assert (status, said) == (0, "3 mar 2021\t2021-03-03\n4/5/1999\t1999-04-05\n")
    pipe(monkeypatch, b"3 mar 2021\n")
    assert run(capsys, "look", "-") == (0, "dates: 2021-03-03\nwrote regard.png\n", "")
    pipe(monkeypatch, SEVEN.read_bytes())
    assert run(capsys, "classify", "-", "--top-k", 1)[1][0] == "7", "pictures are known by their bytes"
    pipe(monkeypatch, b"")
    assert "standard input must hold something" in run(capsys, "generate", "-")[2]


def test_a_text_is_said_to_be_one_or_has_spaces_or_is_in_a_file(capsys, folder):
    assert run(capsys, "generate", "--text", "3/23/21")[:2] == (0, "2021-03-23\n")
    assert (
        run(capsys, "generate", "23 mar 2021", "--csv")[1] == "input,text,finish_reason\n23 mar 2021,2021-03-23,stop\n"
    )
    assert run(capsys, "generate", folder / "notes.txt")[:2] == (0, "2021-03-03\n")


def test_a_table_without_the_column_is_said(capsys, folder):
    status, _, error = run(capsys, "classify", folder / "table.csv", "--column", "path")
    assert (status, error) == (1, "--column: must be one of id, file, given 'path'\n")


def test_what_is_looked_at_may_be_chosen(capsys, tmp_path):
    shown = tmp_path / "a.html"
    chosen = ["--method", "raw", "--layers", "0,1", "--heads", "all", "--kind", "encoder", "--top-k", "2"]
    assert run(capsys, "look", SEVEN, *chosen, "--to", shown)[0] == 0
    found = data_of(shown.read_text())
    assert [(one["layer"], one["heads"]) for one in found["attention"]["maps"]] == [
        (0, [0, 1, 2, 3]),
        (1, [0, 1, 2, 3]),
    ]
    assert len(found["result"]["labels"]) == 2
    values = []
    for against in ([], ["--against", "1"], ["--against", '{"label": "1"}']):
        assert run(capsys, "look", SEVEN, "--method", "libra", *against, "--to", shown)[0] == 0
        values.append(data_of(shown.read_text())["attention"]["maps"][0]["values"])
    assert values[0] != values[1] == values[2]
    assert "--against: must be JSON" in run(capsys, "look", SEVEN, "--against", "{x")[2]


def test_vectors_are_rows(capsys):
    model = described(task="feature-extraction", endpoints=["embed", "attention"], inputs={"max_tokens": 9}).json
    found = {"id": "i", "results": [{"embedding": [0.5, -1.0]}]}
    answers = [
        answer(200, json.dumps(one).encode()) for one in ({"models": [model]}, {"models": [model]}, model, found)
    ]
    with told(*answers) as (url, _):
        assert run(capsys, "embed", "a cat", "--csv", "--url", url)[:2] == (0, "input,0,1\na cat,0.5,-1.0\n")


def test_every_verb_of_many_inputs_has_rows():
    tasks = {one.result for one in regard.tasks.TASKS.values() if one.endpoint in [row[0] for row in command.MANY]}
    assert tasks == questions.ROWS.keys()
    assert len(tasks) == 4


def test_the_first_model_of_a_kind_is_found():
    with pytest.raises(regard.BadInput, match="no model that takes pictures"):
        questions._first([described(inputs={"max_tokens": 9})], "image")
    assert questions._first([described(inputs={"max_tokens": 9}), detector()], "image").name == "m"


def test_numbers_of_layers_are_read_as_the_service_takes_them():
    assert [questions._indices(word) for word in ("-1", "0,2", "all", "8:12")] == [-1, [0, 2], "all", "8:12"]
    assert np.ndim(questions._indices("0,2")) == 1
