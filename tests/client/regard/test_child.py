"""The service and the exporter as the client starts them."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import time

import numpy as np
import pytest
import regard
import torch
import transformers
from PIL import Image
from regard import child

from export.command import _parser
from tests.client.conftest import SEVEN
from tests.conftest import ROOT
from tests.samples.checkpoints import sharpened


@pytest.fixture(autouse=True)
def packages(monkeypatch):
    """The service's packages are installed editable, for whichever folder a process starts in."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "client")]))


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def text_model():
    return transformers.BertModel(transformers.BertConfig(vocab_size=50, **SMALL))


def image_model():
    return transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **SMALL))


@pytest.fixture(scope="module")
def vit():
    """A small ViT with an image processor."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4,
        num_labels=3, attn_implementation="eager",
    )  # fmt: skip
    size = {"height": 16, "width": 16}
    return sharpened(transformers.ViTForImageClassification(config)), transformers.ViTImageProcessor(size=size)


def test_a_model_of_transformers_is_exported_served_and_asked(vit, tmp_path):
    model, processor = vit
    said = []
    artifact = regard.export(model, processor, to=tmp_path, name="mine", say=said.append)
    assert artifact == tmp_path / "mine" / "1"
    assert json.loads((artifact / "manifest.json").read_text())["name"] == "mine"
    assert any(line.split()[:1] == ["verify"] for line in said), "progress is said as it comes"
    with regard.start(tmp_path) as service:
        found = service["mine"].classify(
            SEVEN, attention={"method": "raw", "layers": "all", "heads": "all", "queries": "all"}
        )
        process = service.process
        assert is_running(process.pid)
    assert not is_running(process.pid)
    with Image.open(SEVEN) as picture:
        inputs = processor(images=picture.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        wanted = model(**inputs, output_attentions=True)
    probabilities = wanted.logits[0].softmax(0)
    np.testing.assert_allclose(
        [one.probability for one in sorted(found.labels, key=lambda one: one.index)], probabilities, atol=2e-3
    )
    for one, layer in zip(found.attention.maps, wanted.attentions, strict=True):
        np.testing.assert_allclose(one.values, layer[0].numpy(), atol=2e-2)


def test_what_cannot_be_written_as_a_checkpoint_is_refused():
    with pytest.raises(regard.BadInput, match="save_pretrained"):
        regard.export("digits", object())


@pytest.mark.parametrize(
    ("model", "file"),
    [(text_model, "tokenizer.json"), pytest.param(image_model, "preprocessor_config.json", marks=pytest.mark.slow)],
)
def test_a_model_without_its_tokenizer_or_processor_is_told_what_to_pass(tmp_path, model, file):
    """What the exporter refuses is an error with its words."""
    said = []
    with pytest.raises(regard.CommandFailed) as caught:
        regard.export(model(), to=tmp_path, name="mine", say=said.append)
    advice = "pass the tokenizer or image processor too, as in regard.export(model, tokenizer)"
    assert str(caught.value) == f"export: failed:\nmine: not exported: {file}: is missing; {advice}"
    assert said[-1] == str(caught.value).splitlines()[-1]


def test_progress_of_an_installation_is_no_reason():
    pip = [
        "Looking in indexes: https://somewhere/simple", "Collecting torch==2.9.0", "  Downloading torch.whl (200 MB)",
        "     ━━━━━━━━━━━━ 200/200 MB 9 MB/s", "Requirement already satisfied: sympy in ./lib", "",
        "Installing collected packages: torch", "Successfully installed torch-2.9.0",
        "WARNING: Retrying (Retry(total=4)) after connection broken", "[notice] A new release of pip is available",
    ]  # fmt: skip
    reason = "film: not exported: NAME: is no bundled model and no folder, the hub cannot be reached"
    assert child._last_words(["installing PyTorch", *pip, reason]) == [reason]
    assert child._last_words(["film: not exported: a", "b", *"cdefghijk"])[-1] == "k"
    errors = ["ERROR: Could not find a version that satisfies the requirement torch", "ERROR: No matching distribution"]
    assert child._last_words([*pip, *errors, *pip]) == errors
    lines = [str(number) for number in range(20)]
    assert child._last_words(lines) == lines[-child.LAST_LINES :]


def test_an_export_that_replaces_a_version_returns_its_path(tmp_path, monkeypatch):
    """In the exporter's words, which tests of the pipeline hold."""
    target = tmp_path / "film" / "1"
    target.mkdir(parents=True)
    said = f"  pack      {target}\n  replaced  what was there; a running service keeps the old one"
    monkeypatch.setattr(child, "command", lambda module: [sys.executable, "-c", f"print({said!r})"])
    found = regard.export("film", to=tmp_path, say=str)
    assert found == target
    assert found.exists()


def test_a_wrong_option_is_said_before_all_others():
    with pytest.raises(regard.CommandFailed) as caught:
        regard.export("digits", say=str, precision="fp99")
    reason = str(caught.value).splitlines()[1]
    assert reason.startswith("argument --precision: invalid choice: 'fp99'")
    assert len(str(caught.value).splitlines()) == 2


def test_the_service_that_does_not_start_says_why(tmp_path, light):
    with pytest.raises(regard.BadInput, match="artifacts: must be a folder"):
        regard.start(tmp_path / "none")
    with pytest.raises(regard.CommandFailed, match="REGARD_DEVICE") as caught:
        regard.start(light, device="abacus")
    assert "Traceback" not in str(caught.value)


def test_a_service_that_cannot_be_asked_is_stopped(light, monkeypatch):
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setenv("REGARD_KEY", "schlüssel")
    with pytest.raises(regard.BadInput, match="key: must be"):
        regard.start(light)
    assert [one.poll() is None for one in started] == [False]


def test_an_export_that_is_given_up_stops(monkeypatch):
    def interrupt(line):
        raise KeyboardInterrupt

    began = time.monotonic()
    script = "import time; print('begun', flush=True); time.sleep(60)"
    monkeypatch.setattr(child, "command", lambda module: [sys.executable, "-c", script])
    with pytest.raises(KeyboardInterrupt):
        regard.export("digits", say=interrupt)
    assert time.monotonic() - began < 30


def test_settings_are_the_services_and_a_service_with_keys_is_asked_with_one(light, tmp_path):
    keys = tmp_path / "keys"
    key = secrets.token_hex(16)
    keys.write_text(f"{hashlib.sha256(key.encode()).hexdigest()} predict me\n")
    with regard.start(light, api_keys=keys, key=key, keep_count=0) as service:
        assert service["dates"].generate("3/23/21").text == "2021-03-23"
        drawn = service["dates"].generate("3/23/21", temperature=2.0)
        with pytest.raises(regard.NotFound, match="id:"):
            drawn.look("raw")


def test_the_service_ends_with_the_process_that_started_it(light):
    script = f"import regard; service = regard.start({str(light)!r}); print(service.process.pid, service.url)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    process, url = done.stdout.split()
    assert not is_running(int(process))
    with pytest.raises(regard.NoService):
        regard.connect(url)


def test_without_the_service_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "DISTRIBUTION", "regard-that-nobody-has")
    with pytest.raises(regard.NotInstalled, match="make serve"):
        regard.start(tmp_path)
    with pytest.raises(regard.NotInstalled, match="make serve"):
        regard.export("digits", to=tmp_path)


def test_a_service_that_is_never_ready_is_stopped(light, monkeypatch):
    monkeypatch.setattr(child, "READY_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(regard.CommandFailed, match="was not ready"):
        regard.start(light)
    assert time.monotonic() - began < child.STOP_SECONDS


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("methods", ["raw", "libra"], ["--methods", "raw,libra"]),
        ("methods", "raw,libra", ["--methods", "raw,libra"]),
        ("image_size", (224, 160), ["--image-size", "224x160"]),
        ("image_size", 224, ["--image-size", "224"]),
        ("example", ["a film", "with you"], ["--example", "a film", "--example", "with you"]),
        ("without", ("norm",), ["--without", "norm"]),
        ("ignore", [], []),
        ("about", "[1, 2]", ["--about", "[1, 2]"]),
    ],
)
def test_an_option_of_several_values_is_a_list(flag, value, words):
    assert child._flag(flag, value) == words


@pytest.mark.parametrize("flag", ["name", "about", "precision"])
def test_an_option_of_one_value_is_no_list(flag):
    with pytest.raises(regard.BadInput, match=f"{flag}: must be one value, given a list"):
        child._flag(flag, ["a", "b"])


def test_the_exporter_repeats_what_the_client_repeats():
    repeated = {one.dest for one in _parser()._actions if isinstance(one.default, list) and one.option_strings}
    assert repeated == set(child.REPEATED)


@pytest.mark.parametrize("name", ["host", "port", "PORT"])
def test_a_setting_that_start_chooses_is_refused(tmp_path, name):
    with pytest.raises(regard.BadInput, match=f"{name}: must not be given"):
        regard.start(tmp_path, **{name: "1"})


def test_a_setting_of_several_values_is_a_list_and_none_is_left_to_the_service(tmp_path, monkeypatch):
    given = {}

    def run(command, env, **_):
        given.update(env)
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", run)
    with pytest.raises(OSError, match=r"^$"):
        regard.start(tmp_path, cors_origins=["https://a.example", "https://b.example"], workers=2, api_keys=None)
    assert (given["REGARD_CORS_ORIGINS"], given["REGARD_WORKERS"]) == ("https://a.example,https://b.example", "2")
    assert "REGARD_API_KEYS" not in given


def test_a_folder_of_artifacts_may_have_a_space_and_an_option_may_be_off(tmp_path, monkeypatch):
    asked = []

    def command(verb, *words):
        script = "import sys; print('  pack      ' + sys.argv[3] + '/film/1'); print(sys.argv, file=sys.stderr)"
        asked.append(verb)
        return [sys.executable, "-c", script]

    monkeypatch.setattr(child, "command", command)
    said = []
    assert (
        regard.export("film", to=tmp_path / "my models", say=said.append, force=False, order=0)
        == tmp_path / "my models/film/1"
    )
    assert asked == ["export"]
    assert "force" not in said[-1]
    assert "'--order', '0'" in said[-1]
