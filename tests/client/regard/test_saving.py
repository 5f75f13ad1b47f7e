import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import regard
from regard.reading import read_attention
from regard.results import Asked, read_result

from tests.client.conftest import described, looked, mapped

VALUES = np.random.default_rng(0).random((1, 2, 6)).astype(np.float32)


@pytest.fixture
def answers():
    """A classification with attention, and a vector."""
    asked = Asked(described(), None, {}, "an-id", None)
    labels = {"labels": [{"label": "ä", "index": 0, "probability": 0.75}], "attention": looked(mapped(VALUES))}
    return [
        read_result(regard.Classification, labels, asked),
        read_result(regard.Embedding, {"embedding": [0.5, 1]}, asked),
    ]


def test_a_line_of_json_is_an_answer_as_the_service_sent_it(answers, tmp_path):
    regard.save_many(tmp_path / "many.jsonl", answers)
    one, other = map(json.loads, (tmp_path / "many.jsonl").read_text(encoding="utf-8").splitlines())
    assert (one["model"], one["id"], one["answer"]["labels"][0]["label"]) == ("m", "an-id", "ä")
    np.testing.assert_array_equal(read_attention(one["attention"]).maps[0].values, VALUES)
    assert (other["answer"], other["attention"]) == ({"embedding": [0.5, 1]}, None)


def test_numpy_has_the_arrays_and_beside_them_what_they_are(answers, tmp_path):
    regard.save_many(str(tmp_path / "many.npz"), iter(answers))
    with np.load(tmp_path / "many.npz") as found:
        np.testing.assert_array_equal(found["results/0/maps/0"], VALUES)
        np.testing.assert_array_equal(found["results/1/vector"], np.float32([0.5, 1]))
        one, other = json.loads(found["meta"].tobytes())["results"]
    assert one["attention"]["maps"][0]["kind"] == "cross"
    assert "values" not in one["attention"]["maps"][0]
    assert other == {"model": "m", "id": "an-id", "answer": {}}


def test_parquet_has_rows_where_pyarrow_is(answers, tmp_path, monkeypatch):
    written = []
    arrow = SimpleNamespace(Table=SimpleNamespace(from_pylist=lambda rows: rows))
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    parquet = SimpleNamespace(write_table=lambda rows, to: written.append((rows, to)))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    regard.save_many(tmp_path / "many.parquet", answers)
    ((rows, to),) = written
    assert to == tmp_path / "many.parquet"
    assert (rows[0]["said"], rows[0]["method"], rows[0]["shapes"]) == ("ä", "raw", [[1, 2, 6]])
    np.testing.assert_array_equal(np.float32(rows[0]["values"][0]), VALUES.ravel())
    assert rows[1]["maps"] == []
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(regard.NotInstalled, match=r"save_many: \.parquet needs pyarrow"):
        regard.save_many(to, answers)


def test_another_ending_is_refused(answers, tmp_path):
    with pytest.raises(regard.BadInput, match=r"path: must end in \.npz, \.jsonl or \.parquet, given 'many\.csv'"):
        regard.save_many(tmp_path / "many.csv", answers)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(regard.BadInput, match="path: cannot be written"):
        regard.save_many(tmp_path / "folder.npz", answers)
