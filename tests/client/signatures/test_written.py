"""The methods that are written: they are those of their rows, and take what the options of their tasks say."""

import inspect
import json
import re
import typing

import jedi
import pytest
import regard
from regard.options import AttentionOptions, LookedAt, PictureOptions
from regard.tasks.classification import ClassifyOptions
from regard.tasks.generation import GenerateOptions
from regard.tasks.transcription import TranscribeOptions

from client.signatures.written import FOLDER, files
from tests.client.conftest import answer, described, told


@pytest.mark.parametrize("name", sorted(files()))
def test_a_file_is_what_its_rows_say(name):
    assert (FOLDER / name).read_text() == files()[name], "run: .venv/bin/python -m client.signatures"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (regard.Model.classify, ClassifyOptions),
        (regard.AsyncModel.classify_batch, ClassifyOptions),
        (regard.Model.stream, GenerateOptions),
        (regard.Model.transcribe, TranscribeOptions),
        (regard.Model.attention, LookedAt),
        (regard.AsyncModel.image, PictureOptions),
        (regard.Result.look, AttentionOptions),
        (regard.Detection.heat, AttentionOptions),
    ],
)
def test_a_method_has_every_option_as_a_keyword_with_its_type(method, options):
    found = inspect.signature(method).parameters
    hints, types = typing.get_type_hints(method), typing.get_type_hints(options)
    assert types.keys() <= found.keys()
    for name, type_ in types.items():
        assert found[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert set(typing.get_args(hints[name])) >= ({type_} if not typing.get_args(type_) else set())


@pytest.mark.parametrize("method", [regard.Model.generate, regard.AsyncModel.look, regard.Result.image, regard.connect])
def test_a_docstring_says_what_each_option_means_what_it_is_by_default_and_an_example(method):
    said = inspect.getdoc(method)
    options = [one.name for one in inspect.signature(method).parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert len(options) > 4
    entries = said.split("\n- ")[1:]
    assert {entry.split("`")[1] for entry in entries} >= set(options)
    untold = [entry for entry in entries if not re.search(r"\(.+\)(; [^()]*)?\.$", entry.split("\n\n")[0], re.DOTALL)]
    assert not untold
    assert "Example: `" in said


def test_only_what_is_given_is_sent():
    body = {"results": [{"text": "Salt.", "language": None, "duration": 1.0}], "id": "i"}
    model = described(task="automatic-speech-recognition", endpoints=["transcribe"], inputs={"rate": 8000})
    with told(answer(200, json.dumps(body).encode())) as (url, asked):
        ear = regard.Model(regard.Service(url)._transport, model)
        ear.transcribe(b"RIFF", temperature=0.0, prompt=None, no_speech_threshold=None)
        ear.transcribe(b"RIFF")
    bodies = [json.loads(one.partition(b"\r\n\r\n")[2]) for one in asked]
    assert bodies[0] == {"audio": ["UklGRg=="], "temperature": 0.0, "no_speech_threshold": None}, (
        "None means never there"
    )
    assert bodies[1] == {"audio": ["UklGRg=="]}


OBJECTS = {"service": regard.Service, "model": regard.Model, "twin": regard.AsyncModel, "seen": regard.Classification}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ('model.classify("x.png", to', "top_k="),
        ('model.classify("x.png", at', "attention="),
        ("model.generate('x', num_b", "num_beams="),
        ("model.look(seen, 'raw', la", "layers="),
        ("twin.detect_batch([], th", "threshold="),
        ("seen.heat('rollout', ou", "outside="),
        ("seen.look('rollout', he", "heads="),
        ("seen.image('rollout', col", "colormap="),
        ("regard.connect('x', pat", "patience="),
        ("model.with_options(ti", "timeout="),
        ("model.map([], con", "concurrency="),
    ],
)
def test_jupyter_completes_the_options(code, wanted):
    live = {name: kind.__new__(kind) for name, kind in OBJECTS.items()}
    found = jedi.Interpreter(code, [{**live, "regard": regard}]).complete()
    assert wanted in [one.name_with_symbols for one in found]


def test_an_editor_completes_what_a_model_answers_where_its_class_is_named():
    code = (
        'import regard\nanswer = regard.connect().model("digits", regard.Classification).classify("x.png")\nanswer.lab'
    )
    assert "labels" in [one.name for one in jedi.Script(code).complete()]
