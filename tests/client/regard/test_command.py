"""The command `regard`, as it is typed."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx
import numpy as np
import pytest
import regard
from PIL import Image
from regard import child, command, questions

from tests.client.conftest import SEVEN, answer, data_of, described, detected, detector, filed, mapped, told
from tests.conftest import ROOT
from tests.samples.changed_artifacts import edit
from tests.samples.in_process import in_process
from tests.samples.ports import free_port

VERBS = ("serve", "export", "models", "look", "page", "classify", "embed", "generate", "transcribe")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "client")]))


def run(capsys, *words):
    """Return the exit status, what was printed, and what was printed as an error."""
    try:
        status = command.main(words)
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(capfd, verb):
    done = subprocess.run([sys.executable, "-m", "regard", verb, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"regard {verb}" in done.stdout
    assert "example:" in done.stdout.lower()


def test_the_verbs_are_listed(capsys):
    status, said, _ = run(capsys, "--help")
    assert status == 0
    assert all(re.search(rf"^    {verb}\s", said, re.MULTILINE) for verb in VERBS)
    assert run(capsys) == (2, said, ""), "without a verb it says which there are"
    assert run(capsys, "lok")[0] == 2


def test_it_says_its_version(capsys):
    assert run(capsys, "--version") == (0, f"regard {regard.__version__}\n", "")


def test_help_on_export_is_the_exporters_own(capfd):
    done = subprocess.run([sys.executable, "-m", "regard", "export", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--precision" in done.stdout
    assert done.stdout.endswith("\n\nexample:\n  regard export path/to/checkpoint --to artifacts\n")


def test_help_on_export_is_short_where_there_is_no_exporter(capsys, monkeypatch):
    monkeypatch.setattr(child, "DISTRIBUTION", "regard-that-nobody-has")
    status, said, error = run(capsys, "export", "--help")
    assert status == 0
    assert "what `python -m export` takes" in said
    assert "example:\n  regard export" in said
    assert "which has the client alone" in error


def test_models_are_listed_with_what_they_can(capsys, address):
    status, said, _ = run(capsys, "models", "--url", address)
    assert status == 0
    assert "digits  classify" in said
    assert "dates   generate" in said
    assert "best: " in said


def test_a_picture_is_looked_at(capsys, address, tmp_path):
    file = tmp_path / "seen.png"
    status, said, _ = run(
        capsys, "look", str(SEVEN), "--model", "digits", "--method", "rollout", "--url", address, "--to", str(file)
    )
    assert status == 0
    assert said.startswith("digits: 7 9")
    assert f"wrote {file}" in said
    with Image.open(file) as drawn:
        assert drawn.width > 64
    status, said, _ = run(
        capsys,
        "look",
        str(SEVEN),
        "--target",
        "1",
        "--method",
        "relevance",
        "--url",
        address,
        "--to",
        str(tmp_path / "one.png"),
    )
    assert status == 0, "without a model, it is the first that takes pictures"
    assert (tmp_path / "one.png").read_bytes() != file.read_bytes()


def test_a_text_is_looked_at(capsys, address, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_URL", address)
    monkeypatch.chdir(tmp_path)
    status, said, _ = run(capsys, "look", "--text", "3/23/21")
    assert (status, said) == (0, "dates: 2021-03-23\nwrote regard.png\n")
    assert (tmp_path / "regard.png").exists()
    assert run(capsys, "look", "23 mar 2021", "--to", "a.html")[0] == 0
    status, said, _ = run(capsys, "page", "--text", "3/23/21", "--model", "dates")
    assert (status, said) == (0, "dates: 2021-03-23\nwrote look.html\n")
    for name in ("a.html", "look.html"):
        assert "2021-03-23" in (tmp_path / name).read_text()


def test_a_page_shows_the_method_and_the_class_that_were_asked_for(capsys, address, tmp_path):
    shown = []
    for words in ([], ["--method", "relevance", "--target", "1"], ["--target", "1"]):
        file = tmp_path / "a.html"
        assert run(capsys, "look", str(SEVEN), *words, "--url", address, "--to", str(file))[0] == 0
        found = data_of(file.read_text())["attention"]
        shown.append((found["method"], found["maps"][0]["target"]["label"]))
    assert shown == [("integrated", "7"), ("relevance", "1"), ("integrated", "1")]


def test_objects_are_looked_at_with_their_boxes(capsys, tmp_path):
    model = detector().json
    found = {"id": "i", "results": [{"objects": [detected(3), detected(1, "dog")]}]}
    said = [answer(200, json.dumps(one).encode()) for one in ({"models": [model]}, model, found)]
    with told(*said, answer(200, filed(Image.new("RGB", (30, 20))), "image/png")) as (url, asked):
        to = tmp_path / "a.png"
        status, out, _ = run(capsys, "look", str(SEVEN), "--model", "m", "--url", url, "--to", str(to))
    assert (status, out) == (0, f"m: cat 90.0% at 3,1 to 6,6; dog 90.0% at 1,1 to 4,6\nwrote {to}\n")
    assert asked[2].startswith(b"POST /v1/models/m/detect ")
    assert asked[3].startswith(b"GET /v1/attention/i?kind=cross&method=raw&format=png&model=m ")
    with Image.open(to) as drawn:
        assert drawn.size == (30, 20)


def test_a_graph_is_looked_at_by_its_file(capsys, tmp_path):
    graph = {"nodes": [0, 0], "edges": [[0, 1]]}
    file, to = tmp_path / "graph.json", tmp_path / "a.html"
    file.write_text(json.dumps(graph))
    known = {"inputs": {"node_types": ["plain"], "edge_types": ["knows", "likes"]}}
    other, model = (described(name=name, **inputs).json for name, inputs in (("p", {}), ("m", known)))
    found = {"id": "i", "results": [{"labels": [{"label": "a", "index": 0, "probability": 1.0}]}]}
    nodes = [{"text": "plain", "span": [at, at + 1], "special": False} for at in range(2)]
    sent = {"directed": False, "edges": [[0, 1, 0]], "places": [[0, 0], [1, 1]]}
    seen = {"method": "rollout", "maps": [mapped(np.eye(2)[None])], "tokens": {"node": nodes}, "graph": sent}
    looks = {"id": "i", "results": [{"attention": seen}]}
    models = {"models": [other, model]}
    said = [answer(200, json.dumps(one).encode()) for one in (models, models, model, found, looks)]
    with told(*said) as (url, asked):
        status, out, _ = run(capsys, "look", str(file), "--url", url, "--to", str(to))
    assert (status, out) == (0, f"m: a 100.0%\nwrote {to}\n")
    assert asked[3].startswith(b"POST /v1/models/m/classify ")
    assert json.loads(asked[3].partition(b"\r\n\r\n")[2]) == {"graphs": [graph]}
    assert b"queries=all" in asked[-1], "every head is a matrix of all nodes"
    shown = data_of(to.read_text())
    assert (shown["attention"], shown["edge_types"]) == (seen, ["knows", "likes"])


def test_texts_are_ranked_and_the_best_is_looked_at(capsys, tmp_path):
    known = {"inputs": {"max_tokens": 9}, "attention": detector().json["attention"]}
    other, ranker = (
        described("text-classification", name=name, endpoints=endpoints, **known).json
        for name, endpoints in (("m", ["classify"]), ("r", ["classify", "rerank"]))
    )
    best, second = ({"id": f"i.{at}", "index": at, "score": score} for at, score in ((1, 0.9), (0, 0.1)))
    ranked = {"id": "i", "results": [best, second]}
    models = {"models": [other, ranker]}
    said = [answer(200, json.dumps(one).encode()) for one in (models, models, ranker, ranked)]
    with told(*said, answer(200, filed(Image.new("RGB", (30, 20))), "image/png")) as (url, asked):
        to = tmp_path / "a.png"
        status, out, _ = run(capsys, "look", "q", "--texts", "x", "y", "--url", url, "--to", str(to))
    assert (status, out) == (0, f"r: 0.900 y\nr: 0.100 x\nwrote {to}\n")
    assert asked[3].startswith(b"POST /v1/models/r/rerank ")
    assert asked[4].startswith(b"GET /v1/attention/i.1?")
    assert run(capsys, "look", "q", "--texts", "x", "--context", "y")[0] == 2


def test_in_a_terminal_that_can_the_picture_is_shown(capsys, address, tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "can_show", lambda: True)
    monkeypatch.setenv("COLORTERM", "truecolor")
    _, said, _ = run(capsys, "look", str(SEVEN), "--url", address, "--to", str(tmp_path / "a.png"))
    assert "▀" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["models", "--url", "http://127.0.0.1:1"], "nothing answers there"),
        (["look", "23 mar 2021", "--model", "digts"], "model: there is none named 'digts'; there are"),
        (["look", str(SEVEN), "--to", "a.gif"], "--to: must end in .png or .html"),
        (["look", str(SEVEN), "--to", "none/a.png"], "--to: must be in a folder that exists"),
        (["page", str(SEVEN), "--to", "a.png"], "--to: must end in .html"),
        (["look", "none.wav"], "FILE: must be a sound's file that exists, given 'none.wav'"),
        (["look", "none.json"], "FILE: must be a graph's file that exists, given 'none.json'"),
        (["look", "none.png"], "FILE: must be a picture's file that exists, given 'none.png'"),
        (["page", "none.JPG", "--model", "digits", "--to", "a.html"], "FILE: must be a picture's file"),
        (["look", "no picture", "--model", "digits"], "picture: "),
        (["look", 400 * "x", "--model", "digits"], "is no file that exists; --text says that it is a text"),
        (["look", "nofile"], "FILE: 'nofile' is no file that exists; --text says that it is a text"),
        (["look", "some/folder"], "FILE: 'some/folder' is no file that exists"),
        (["look", "/tmp/no such file"], "FILE: '/tmp/no such file' is no file that exists"),
        (["generate", "."], "FILE: must be a folder with files that the model takes, given '.'"),
        (["look", str(SEVEN), "--model", "dates"], "--model: must be one that takes pictures, given 'dates'; left out"),
        (["page", str(SEVEN), "--model", "dates"], "--model: must be one that takes pictures, given 'dates'; left out"),
        (["look", str(SEVEN), "--to", "a.html", "--target", "zebra"], "target"),
        (["look", str(SEVEN), "--target", "zebra", "--method", "relevance"], "target"),
        (["look", str(SEVEN), "--target", "\N{SUPERSCRIPT THREE}", "--method", "relevance"], "target"),
    ],
)
def test_an_error_is_one_line_without_a_trace(capsys, address, tmp_path, monkeypatch, words, said):
    monkeypatch.setenv("REGARD_URL", address)
    monkeypatch.chdir(tmp_path)
    status, out, error = run(capsys, *words)
    assert (status, out) == (1, "")
    assert said in error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_read_enough_sees_no_trace(address):
    command = [sys.executable, "-m", "regard", "models", "--url", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 1
    process.stderr.close()


@pytest.mark.parametrize("words", ['models --url "$0"', "--help"])
@pytest.mark.parametrize(
    ("to", "said"),
    [("/dev/full", "stdout: cannot be written: No space left on device"), ("&-", "stdout: must be open")],
)
def test_an_output_that_takes_nothing_is_one_line(address, words, to, said):
    line = f'"{sys.executable}" -m regard {words} >{to}'
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # else argparse itself drops what cannot be written
    done = subprocess.run(["sh", "-c", line, address], stderr=subprocess.PIPE, text=True, env=buffered)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith(said)


def test_letters_that_the_output_has_not_are_replaced():
    about = {**detector().json, "about": "Reads \N{SNOWMAN} and \ud800."}
    with told(answer(200, json.dumps({"models": [about]}).encode())) as (url, _):
        done = subprocess.run(
            [sys.executable, "-m", "regard", "models", "--url", url],
            capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Reads ? and ?." in done.stdout


def test_a_file_that_cannot_be_written_is_one_line(capsys, address, tmp_path):
    (tmp_path / "a.html").mkdir()
    status, _, error = run(capsys, "page", "--text", "3/23/21", "--url", address, "--to", str(tmp_path / "a.html"))
    assert (status, error) == (1, "--to: cannot be written: Is a directory\n")


@pytest.mark.parametrize(
    ("words", "options", "printed"),
    [
        ([], {}, "Salt."),
        (["--language", "en"], {"language": "en"}, "Salt."),
        (["--srt"], {"timestamps": "word"}, "1\n00:00:00,000 --> 00:00:00,500\nSalt.\n\n"),
        (["--vtt"], {"timestamps": "word"}, "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\nSalt.\n\n"),
    ],
)
def test_what_was_said_in_a_sound_is_printed(capsys, tmp_path, words, options, printed):
    (tmp_path / "talk.wav").write_bytes(b"RIFF")
    hears = {"name": "ear", "endpoints": ["transcribe"], "inputs": {"rate": 8000}}
    models = [described().json, described(**hears).json]
    word = {"word": "Salt.", "start": 0.0, "end": 0.5, "probability": 0.9}
    said = {"id": "i", "results": [{"text": "Salt.", "language": "en", "duration": 0.5, "words": [word]}]}
    answers = [
        answer(200, json.dumps(one).encode()) for one in ({"models": models}, {"models": models}, models[1], said)
    ]
    with told(*answers) as (url, sent):
        found = run(capsys, "transcribe", str(tmp_path / "talk.wav"), *words, "--url", url)
    assert found == (0, f"{printed}\n", "")
    assert b"/v1/models/ear/transcribe" in sent[-1]
    assert json.loads(sent[-1].partition(b"\r\n\r\n")[2]) == {"audio": ["UklGRg=="], **options}


def test_serve_runs_the_service_and_ends_with_it(light):
    port = free_port()
    words = [sys.executable, "-m", "regard", "serve", "--artifacts", str(light), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(300):
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                assert process.poll() is None
            time.sleep(0.1)
        assert {one.name for one in regard.connect(f"http://127.0.0.1:{port}").models()} == {"digits", "dates"}
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal interrupts what runs in it
        status = process.wait(30)
    assert status in (0, 130)


def test_serve_is_the_service_itself_so_that_signals_reach_it():
    words = [sys.executable, "-m", "regard", "serve", "--artifacts", "/nowhere/at/all"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = process.communicate(timeout=60)
    own = subprocess.run(
        [sys.executable, "-m", "service"],
        env={**os.environ, "REGARD_ARTIFACTS": "/nowhere/at/all"},
        capture_output=True,
    )
    assert process.returncode == own.returncode != 0, said


@pytest.mark.parametrize(
    ("terminal", "known", "wanted"), [(True, None, "console"), (False, None, None), (True, "json", None)]
)
def test_in_a_terminal_the_service_logs_for_people(monkeypatch, terminal, known, wanted):
    given = {}
    monkeypatch.setattr(command, "_become", lambda module, words, named: given.update(named) or 0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.delenv("REGARD_LOG_FORMAT", raising=False)
    if known:
        monkeypatch.setenv("REGARD_LOG_FORMAT", known)
    assert command.main(["serve", "--port", "8001"]) == 0
    assert given.pop("REGARD_PORT") == "8001"
    assert given.get("REGARD_LOG_FORMAT") == wanted, "what the environment says stays"


def test_export_is_the_exporters_own_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "regard", "export", "digts", "--to", str(tmp_path)], capture_output=True, text=True
    )
    own = subprocess.run(
        [sys.executable, "-m", "export", "digts", "--to", str(tmp_path)], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (own.returncode, own.stderr)
    assert done.returncode != 0


@pytest.mark.parametrize("words", [["serve"], ["export", "digits"]])
def test_without_the_service_it_says_what_to_install(capsys, monkeypatch, words):
    monkeypatch.setattr(child, "DISTRIBUTION", "regard-that-nobody-has")
    status, _, error = run(capsys, *words)
    assert status == 1
    assert "which has the client alone" in error


def test_escape_codes_of_a_service_are_written_as_words(capsys, light_copy, tmp_path):
    def spoil(manifest):
        manifest["labels"][7] = "\x1b]0;mine\x07seven"
        manifest["about"] = "\x1b[2Jdigits\x9b1m"

    edit(light_copy / "digits/1", spoil)
    with in_process(light_copy) as client:
        url = str(client.base_url)
        _, listed, _ = run(capsys, "models", "--url", url)
        _, seen, _ = run(capsys, "look", str(SEVEN), "--model", "digits", "--url", url, "--to", str(tmp_path / "a.png"))
    assert "\\x1b[2Jdigits\\x9b1m" in listed
    assert "\\x1b]0;mine\\x07seven" in seen
    assert not {"\x1b", "\x07", "\x9b"}.intersection(listed + seen)
