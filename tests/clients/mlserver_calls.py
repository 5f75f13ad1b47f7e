"""What the command `mlserver infer` sends: the requests of a file, one by one or in batches."""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

DATES = {"the twenty-third of March 2021": "2021-03-23", "3/23/21": "2021-03-23", "1 May 1999": "1999-05-01"}


def infer(service, model, requests, *options):
    """Return the answers to requests, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.json", Path(folder) / "answered.json"
        asked.write_text("".join(json.dumps(one) + "\n" for one in requests))
        command = [Path(sys.executable).with_name("mlserver"), "infer", "--url", service.url.removeprefix("http://")]
        command += ["--model-name", model, "--input-data-path", asked, "--output-data-path", answered, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-400:]
        answers = [json.loads(line) for line in answered.read_text().splitlines()]
    return sorted(answers, key=lambda one: one["parameters"]["batch_index"])


def request(name, element):
    return {"inputs": [{"name": name, "shape": [1, 1], "datatype": "BYTES", "data": [element]}]}


def output(answer, name):
    assert "outputs" in answer, answer
    return next(one["data"] for one in answer["outputs"] if one["name"] == name)


def one_by_one(service):
    """Texts of a file, each in a request of its own."""
    answers = infer(service, service.seq2seq, [request("text", text) for text in DATES])
    assert [output(one, "text") for one in answers] == [[date] for date in DATES.values()]


def in_batches(service):
    """Texts of a file, two in a request."""
    answers = infer(service, service.seq2seq, [request("text", text) for text in DATES], "--batch-size", "2")
    assert [output(one, "text") for one in answers] == [[date] for date in DATES.values()]


def in_binary(service):
    """Texts of a file, sent in binary."""
    answers = infer(service, service.seq2seq, [request("text", text) for text in DATES], "--binary-data")
    assert [output(one, "text") for one in answers] == [[date] for date in DATES.values()]


def images(service):
    """Images of a file, as base64, in batches."""
    data = base64.b64encode(Path(service.picture).read_bytes()).decode()
    answers = infer(service, service.images, [request("image", data)] * 4, "--batch-size", "4")
    assert [output(one, "label") for one in answers] == [["7"]] * 4
    assert all(len(output(one, "probabilities")) == 10 for one in answers)


def a_refusal(service):
    """A refusal is written to the file with its sentence."""
    (answer,) = infer(service, "none", [request("text", "a")], "--retries", "1")
    assert "model: " in answer["error"]["msg"]
