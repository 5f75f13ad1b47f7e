"""What the load generator aiperf sends, a few requests of each kind that it can measure here."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REQUESTS = 8


def profile(service, model, kind, *options):
    """Run `aiperf profile`; return its figures. Its tokenizer is in a cache of the hub, so nothing is fetched."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "hub/models--regard--tokenizer"
        tokenizer = kept / "snapshots/0"
        tokenizer.mkdir(parents=True)
        (kept / "refs").mkdir()
        (kept / "refs/main").write_text("0")
        shutil.copy(next((Path(service.artifacts) / service.embeddings).rglob("tokenizer.json")), tokenizer)
        (tokenizer / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        command = [Path(sys.executable).with_name("aiperf"), "profile", "--model", model, "--endpoint-type", kind]
        command += ["--url", service.url, "--tokenizer", "regard/tokenizer", "--artifact-dir", f"{folder}/found"]
        command += ["--request-count", str(REQUESTS), "--concurrency", "2", "--ui", "none", "--no-gpu-telemetry"]
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": folder, "HOME": folder}
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, cwd=folder, env=os.environ | offline, timeout=170
        )
        assert done.returncode == 0, (done.stderr or done.stdout)[-400:]
        (found,) = Path(folder).rglob("profile_export_aiperf.json")
        return json.loads(found.read_text())


def check(figures):
    """Raise unless every request was answered."""
    assert figures["request_count"]["avg"] == REQUESTS, figures["request_count"]
    assert not (figures.get("error_request_count") or {}).get("avg"), figures["error_request_count"]


def embeddings(service):
    """Embeddings by OpenAI's protocol, once the list of models has the model."""
    options = ("--wait-for-model-timeout", "30", "--wait-for-model-mode", "models")
    check(profile(service, service.embeddings, "embeddings", "--isl", "24", *options))


def completions(service):
    """Completions by OpenAI's protocol."""
    check(profile(service, service.causal, "completions", "--isl", "4", "--osl", "4"))


def streamed_completions(service):
    """Completions as streams, whose first tokens are timed."""
    figures = profile(service, service.causal, "completions", "--isl", "4", "--osl", "4", "--streaming")
    check(figures)
    assert figures["time_to_first_token"]["avg"] > 0


def chats(service):
    """Chats by OpenAI's protocol, of several turns too."""
    check(profile(service, service.chat, "chat", "--isl", "4", "--osl", "4"))


def streamed_chats(service):
    """Chats as streams, whose first tokens are timed, and whose usage comes at the end."""
    options = ("--isl", "4", "--osl", "4", "--streaming", "--use-server-token-count")
    figures = profile(service, service.chat, "chat", *options)
    check(figures)
    assert figures["time_to_first_token"]["avg"] > 0
    assert 0 < figures["output_sequence_length"]["avg"] <= 4


def our_own_protocol(service):
    """Embeddings by our own protocol, as a template."""
    template = {"payload_template": '{"inputs": {{ texts|tojson }} }', "response_field": "results[*].embedding"}
    path = f"/v1/models/{service.embeddings}/embed"
    options = ("--endpoint", path, "--extra-inputs", json.dumps(template), "--isl", "24")
    check(profile(service, service.embeddings, "template", *options))
