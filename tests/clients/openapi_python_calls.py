"""Calls of a client that openapi-python-client makes of `/openapi.json`: answers of every sort have their types.

Runs in the environment of openapi-python-client. The client is generated where the calls run.
"""

import base64
import importlib
import io
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

CONFIGURATION = """
content_type_overrides:
  image/png: application/octet-stream
  image/jpeg: application/octet-stream
  image/webp: application/octet-stream
  audio/wav: application/octet-stream
"""
"""The generator knows files of this type alone."""
DATE = "3/23/21"


@cache
def generated(url):
    """Return the generated package, and what the generator said."""
    Path("generate.yml").write_text(CONFIGURATION)
    command = [Path(sys.executable).parent / "openapi-python-client", "generate", "--url", f"{url}/openapi.json"]
    options = ["--config", "generate.yml", "--meta", "none", "--output-path", "regard_api"]
    path = {
        **os.environ,
        "PATH": f"{command[0].parent}{os.pathsep}{os.environ['PATH']}",
    }  # it formats by a program there
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, env=path)
    assert not done.returncode, done.stderr[-1000:]
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module("regard_api"), (done.stdout + done.stderr).strip()


def asked(service, endpoint, model, **asked):
    """Return the answer of an endpoint, `predictions.classify`, as the generated client has it."""
    api, _ = generated(service.url)
    module = importlib.import_module(f"regard_api.api.{endpoint}")
    with api.Client(service.url, raise_on_unexpected_status=True) as client:
        return module.sync(model, client=client, **asked)


def posted(service, endpoint, body):
    """Return the answer of an endpoint whose document names the model."""
    api, _ = generated(service.url)
    module = importlib.import_module(f"regard_api.api.{endpoint}")
    with api.Client(service.url, raise_on_unexpected_status=True) as client:
        return module.sync(client=client, body=body)


def types(service):
    """Return the generated classes."""
    generated(service.url)
    return importlib.import_module("regard_api.models")


def picture(service):
    """Return a picture as the generated client takes files."""
    types(service)
    file = importlib.import_module("regard_api.types").File
    return file(io.BytesIO(Path(service.picture).read_bytes()), "seven.png", "image/png")


def no_warnings(service):
    """Generate a client; nothing of the document is left out."""
    _, said = generated(service.url)
    assert said == "Generating regard_api", said


def classify(service):
    """Classify a picture: as it is, in a form and in JSON."""
    known = types(service)
    image = picture(service)
    encoded = known.ClassifyImages.from_dict({"images": [to_base64(image.payload.getvalue())], "top_k": 2})
    bodies = [encoded, known.ClassifyForm(image=[picture(service)], top_k=2)]
    answers = [asked(service, "predictions.classify", service.images, body=body) for body in bodies]
    answers.append(asked(service, "predictions.classify", service.images, body=image, top_k=2))
    for answer in answers:
        assert isinstance(answer, known.Classified)
        best, second = answer.results[0].labels
        assert isinstance(best, known.Label)
        assert (best.label, best.index) == ("7", 7)
        assert best.probability > second.probability


def generate(service):
    """Generate texts, with alternatives and cross-attention."""
    known = types(service)
    attention = known.AttentionOptions(kind="cross")
    body = known.GenerateFromTexts(inputs=[DATE], alternatives=2, attention=attention)
    answer = asked(service, "predictions.generate", service.seq2seq, body=body)
    assert isinstance(answer, known.Generated)
    (result,) = answer.results
    assert result.text == "2021-03-23"
    assert result.finish_reason is known.GeneratedResultFinishReason.STOP
    assert len(result.tokens[0].alternatives) == 2
    assert result.attention.maps[0].kind == "cross"
    assert result.attention.tokens.source[0].span == [0, 1]


def embed(service):
    """Embed a text."""
    known = types(service)
    answer = asked(service, "predictions.embed", service.embeddings, body=known.EmbedTexts(inputs="a cat"))
    assert isinstance(answer, known.Embedded)
    assert isinstance(answer.results[0].embedding[0], float)


def rerank(service):
    """Rank texts by our own protocol, explained against another, and documents by those of rerankers."""
    known = types(service)
    against = known.AttentionOptions.from_dict({"method": "libra", "against": {"text": "2021-05-23"}})
    body = known.RankTexts(query=DATE, texts=["2021-05-23", "2021-03-23"], attention=against)
    answer = asked(service, "predictions.rerank", service.ranker, body=body)
    assert isinstance(answer, known.RankedTexts)
    assert answer.results[0].index == 1
    assert answer.against.score == answer.results[1].score
    body = known.RerankRequest(model=service.ranker, query=DATE, documents=["2021-05-23", "2021-03-23"])
    for protocol in ("jina", "cohere"):
        ranked = posted(service, f"rerankers.{protocol}_rerank", body)
        assert isinstance(ranked, known.RankedDocuments)
        assert (ranked.results[0].index, ranked.usage.total_tokens > 0) == (1, True)
    pair = known.ScoreTexts(model=service.ranker, text_1=DATE, text_2="2021-03-23")
    (score,) = posted(service, "rerankers.vllm_score", pair).data
    assert score.score > 0.9
    refused = posted(service, "rerankers.cohere_rerank", known.RerankRequest("none", DATE, []))
    assert isinstance(refused, known.RerankerError)


def attention(service):
    """Ask what was looked at: now, and of an earlier answer by its id."""
    known = types(service)
    options = known.AttentionOptions(method=known.MethodOption.LIBRA, diagnostics=True, evaluate=["deletion"])
    image = to_base64(picture(service).payload.getvalue())
    body = known.AttendImages(images=[image], attention=options)
    answer = asked(service, "attention.attention", service.images, body=body)
    assert isinstance(answer, known.Attended)
    found = answer.results[0].attention
    assert found.tokens.grid.rows == found.tokens.grid.columns == 7
    assert found.maps[0].target.label == "7"
    assert found.maps[0].conserved.score != 0
    assert found.diagnostics[0].max_entropy > 0
    assert found.evaluation.curves[0].random.area > 0
    again = asked(service, "attention.stored_attention", answer.id, method=known.MethodOption.ROLLOUT)
    assert isinstance(again, known.Attended)
    assert again.results[0].attention.maps[0].shape == [1, 1, 50]


def transcribe(service):
    """Write what was said in a sound: as it is, in a form and in JSON; and by OpenAI's endpoint."""
    known = types(service)
    content = Path(service.sound).read_bytes()
    file = importlib.import_module("regard_api.types").File

    def sound():
        return file(io.BytesIO(content), "talk.wav", "audio/wav")

    word = known.TimestampsOption.WORD
    bodies = [
        known.TranscribeSounds(audio=[to_base64(content)], timestamps=word),
        known.TranscribeForm(audio=[sound()], timestamps=word),
    ]
    answers = [asked(service, "predictions.transcribe", service.speech, body=body) for body in bodies]
    answers.append(asked(service, "predictions.transcribe", service.speech, body=sound(), timestamps=word))
    for answer in answers:
        assert isinstance(answer, known.Transcribed), answer
        assert isinstance(answer.results[0].words[0], known.SpokenWord)
        assert isinstance(answer.results[0].segments[0], known.SpokenSegment)
    body = known.TranscriptionsForm(file=sound(), model=service.speech, temperature=0.5)
    said = posted(service, "open_ai.openai_transcriptions", body)
    assert isinstance(said, known.OpenAISpeech), said
    assert said.usage.seconds == 4


def models(service):
    """List the models."""
    known = types(service)
    api, _ = generated(service.url)
    module = importlib.import_module("regard_api.api.models.list_models")
    with api.Client(service.url) as client:
        answer = module.sync(client=client)
    found = {model.name: model for model in answer.models}
    assert found[service.images].attention.kinds["encoder"].heads > 0
    assert isinstance(found[service.images].inputs, known.ImageSize)
    assert isinstance(found[service.seq2seq].inputs, known.TextSize)


def problem(service):
    """Be refused."""
    known = types(service)
    body = known.GenerateFromTexts(inputs=DATE, top_k=-1)
    answer = asked(service, "predictions.generate", service.seq2seq, body=body)
    assert isinstance(answer, known.Problem)
    assert (answer.status, answer.errors[0].loc) == (422, "top_k")


def to_base64(content):
    """Return bytes as the generated client takes them."""
    return base64.b64encode(content).decode()


CALLS = [no_warnings, classify, generate, embed, rerank, attention, transcribe, models, problem]
