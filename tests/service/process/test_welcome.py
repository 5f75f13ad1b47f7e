"""What the start says: the models, the device, the address, a command that runs, and the settings that were changed."""

import hashlib
import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from service.process.welcome import address, command_to_try
from tests.conftest import ROOT, served, start

KEY = "a-key-that-nobody-may-read"


def model(name, task, tokenizer=None):
    manifest = SimpleNamespace(name=name, task=task, attention=())
    return SimpleNamespace(
        manifest=manifest, endpoints=["classify"], example_text="", inputs=SimpleNamespace(tokenizer=tokenizer)
    )


IMAGES, TEXTS = model("digits", "image-classification"), model("dates", "text2text-generation", "a tokenizer")


def test_where_there_is_no_picture_to_send_a_text_is_tried(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command = command_to_try("http://here", [IMAGES, TEXTS], needs_key=False)
    assert command.endswith("http://here/v1/models/dates/classify")
    assert command_to_try("http://here", [IMAGES], needs_key=False) == "curl http://here/v1/models"


def test_a_command_takes_a_key_from_the_shell_where_one_is_needed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    header = 'curl -H "Authorization: Bearer $REGARD_KEY" '
    for models in ([TEXTS], [IMAGES]):
        assert command_to_try("http://here", models, needs_key=True).startswith(header)
        assert "Authorization" not in command_to_try("http://here", models, needs_key=False)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("fe80::1", "http://[fe80::1]:8000"),
    ],
)
def test_the_address_is_one_that_a_client_can_use(host, url):
    assert address(host, 8000) == url


def test_the_log_says_the_four_things_and_the_command_runs(light, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{hashlib.sha256(KEY.encode()).hexdigest()} predict alice\n")
    with served(light, api_keys=keys, max_inputs=7, keep_count=1000) as client:
        (said,) = [line for line in map(json.loads, client.lines()) if line["event"] == "serving"]
        run = {"shell": True, "cwd": ROOT, "capture_output": True, "text": True}
        answered = subprocess.run(said["command"], env=os.environ | {"REGARD_KEY": KEY}, **run)
        refused = subprocess.run(said["command"], env=os.environ | {"REGARD_KEY": "another"}, **run)
    assert said["models"][0] == "digits", "as they are listed"
    assert sorted(said["models"]) == sorted(next(line["models"] for line in client.log if line["event"] == "ready"))
    assert said["device"] in {"cpu", "cuda"}
    assert said["url"] == next(line["url"] for line in client.log if line["event"] == "listening")
    assert json.loads(answered.stdout)["results"][0]["labels"][0]["label"] == "7"
    assert json.loads(refused.stdout)["status"] == 401
    assert KEY not in json.dumps(client.log)
    (settings,) = [line for line in client.log if line["event"] == "settings"]
    assert settings["max_inputs"] == 7
    assert "body_seconds" not in settings, "only settings that differ from their defaults are logged"
    assert "keep_count" not in settings, "it was set to its default"


def test_a_person_reads_the_four_things_in_four_lines(light):
    process = start(light, port=0, log_format="console")
    said = []
    while not said or not said[-1].startswith("try"):
        said.append(process.stdout.readline())
        assert said[-1], "it ended"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert [line.split()[0] for line in said[-4:]] == ["models", "device", "address", "try"]
    assert "curl " in said[-1]
    (settings,) = [line for line in said if " settings " in line]
    assert "log_format=console" in settings
    assert "body_seconds" not in settings
