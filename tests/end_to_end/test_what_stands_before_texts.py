"""What stands before a text: a prompt of the model, special tokens of its tokenizer, or nothing."""

import base64
import json
import warnings

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from tests.samples.checkpoints import SMALL, checkpoint_of, sharpened
from tests.samples.export_folders import edit
from tests.samples.export_marian import ENGLISH, sentences, train
from tests.samples.exports import export, once
from tests.samples.in_process import in_process

TEXTS = ["the cat sat", "a dog and a bird ran high", "", "the old house was not very good"]
PROMPT, PREFIX = "a low bird: ", "the red cat "


def sentence_model(folder):
    modules = [Transformer(str(checkpoint_of("bert"))), Pooling(16, "lasttoken"), Dense(16, 8), Normalize()]
    prompts = {"query": PROMPT, "document": "high "}
    sharpened(modules[2])
    model = SentenceTransformer(
        modules=modules, prompts=prompts, default_prompt_name="query", truncate_dim=6, device="cpu"
    )
    model.save(str(folder))
    return folder


def continuing_model(folder):
    for file in checkpoint_of("gpt2").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    edit(folder, "config.json", lambda it: it.update(prefix=PREFIX))
    return folder


def model_without_first_token(folder):
    """A classifier whose tokenizer, T5's, is a SentencePiece model alone, and puts nothing before a text."""
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    train(folder / "spiece.model", sentences(ENGLISH, 300, 1), model_type="unigram", **ids)
    settings = {"tokenizer_class": "T5Tokenizer", "model_max_length": 40}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = transformers.BertConfig(
        **SMALL, intermediate_size=24, vocab_size=400, max_position_embeddings=40, num_labels=3
    )
    sharpened(transformers.BertForSequenceClassification(config)).save_pretrained(folder)
    return folder


MODELS = {"sentences": sentence_model, "continued": continuing_model, "unled": model_without_first_token}


READ = ("tests/end_to_end/test_what_stands_before_texts.py", "tests/samples/checkpoints.py")


@pytest.fixture(scope="module")
def folders():
    def make(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, of in MODELS.items():
                (folder / name).mkdir()
                of(folder / name)

    return once("checkpoints-before-texts", make, *READ)


@pytest.fixture(scope="module")
def client(folders):
    given = [folders / name for name in MODELS]
    with in_process(once("artifacts-before-texts", export(*given, "--methods", "libra"), *READ)) as client:
        yield client


def posted(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_embedding_is_that_of_the_library_by_every_protocol(client, folders):
    wanted = SentenceTransformer(str(folders / "sentences"), device="cpu").encode(TEXTS)
    assert wanted.shape == (len(TEXTS), 6)
    path = "/v1/models/sentences"
    tensor = {"name": "text", "shape": [len(TEXTS)], "datatype": "BYTES", "data": TEXTS}
    (infer,) = posted(client, "/v2/models/sentences/infer", inputs=[tensor])["outputs"]
    openai = posted(client, "/v1/embeddings", model="sentences", input=TEXTS)["data"]
    coded = posted(client, "/v1/embeddings", model="sentences", input=TEXTS, encoding_format="base64")["data"]
    for found in (
        [one["embedding"] for one in posted(client, f"{path}/embed", inputs=TEXTS)["results"]],
        np.reshape(infer["data"], (len(TEXTS), -1)),
        [one["embedding"] for one in openai],
        [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in coded],
        posted(client, path, inputs=TEXTS),
        posted(client, f"{path}/tei/embed", inputs=TEXTS, normalize=False),
    ):
        assert np.abs(np.array(found) - wanted).max() < 1e-5
    first, *others = (one / np.linalg.norm(one) for one in wanted)
    cosines = posted(client, path, inputs={"source_sentence": TEXTS[0], "sentences": TEXTS[1:]})
    assert cosines == pytest.approx([float(first @ other) for other in others], abs=1e-5)


def test_the_description_says_the_prompt_and_which_state_is_the_embedding_s(client):
    info = client.get("/v1/models/sentences/tei/info").json()
    assert info["model_type"]["embedding"]["pooling"] == "last_token"
    assert client.get("/v1/models/sentences").json()["inputs"]["prompt"] == PROMPT
    assert "prompt" not in client.get("/v1/models/unled").json()["inputs"]


def test_the_tokens_of_a_prompt_are_special_and_spans_are_places_in_what_was_sent(client):
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint_of("bert"))
    for text in TEXTS:
        (found,) = posted(client, "/v1/models/sentences/embed", inputs=text, attention={"method": "raw"})["results"]
        tokens = found["attention"]["tokens"]["source"]
        assert found["attention"]["maps"][0]["rows"] == [len(tokens) - 1]  # of the last, which is the embedding's
        wanted = tokenizer(PROMPT + text, return_offsets_mapping=True, return_special_tokens_mask=True)
        of_text = [stop > len(PROMPT) for _, stop in wanted["offset_mapping"]]
        assert [one["text"] for one in tokens] == [tokenizer.decode([one]) for one in wanted["input_ids"]] or not text
        assert [not one["special"] for one in tokens] == of_text
        for one, (start, stop) in zip(tokens, wanted["offset_mapping"], strict=True):
            assert one["span"] == ([start - len(PROMPT), stop - len(PROMPT)] if one["span"] else None)
            assert not one["span"] or text[slice(*one["span"])] == one["text"].removeprefix("##")


def test_what_makes_two_texts_alike_is_explained_of_vectors_as_they_are_answered(client, folders):
    one, other = SentenceTransformer(str(folders / "sentences"), device="cpu").encode(TEXTS[:2])
    options = {"method": "libra", "against": {"text": TEXTS[1]}}
    (found,) = posted(client, "/v1/models/sentences/embed", inputs=TEXTS[0], attention=options)["results"]
    cosine = float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    assert found["attention"]["maps"][0]["conserved"]["score"] == pytest.approx(cosine, abs=1e-5)


def test_a_continued_text_has_the_prefix_of_the_configuration_before_it(client, folders):
    texts = ["the cat", "a", "bad dog"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folders / "continued/tokenizer.json"))
        model = transformers.AutoModelForCausalLM.from_pretrained(folders / "continued")
        pipeline = transformers.pipeline("text-generation", model, tokenizer=tokenizer, device="cpu")
        greedy = {"do_sample": False, "return_full_text": False}  # as long as the folder says
        wanted = [one["generated_text"] for (one,) in pipeline(texts, **greedy)]
        (plain,) = pipeline(texts[0], prefix="", **greedy)
    found = posted(client, "/v1/models/continued/generate", inputs=texts)["results"]
    assert [one["text"] for one in found] == wanted
    assert wanted[0] != plain["generated_text"]
    whole = posted(client, "/v1/models/continued", inputs="a", parameters={"return_full_text": True})
    assert whole[0]["generated_text"] == "a" + wanted[1]


def test_the_share_of_a_start_is_that_of_all_that_stands_before_a_text(client):
    (found,) = posted(client, "/v1/models/continued/generate", inputs="the cat", attention={"method": "raw"})["results"]
    tokens = found["attention"]["tokens"]["target_input"]
    spans = [one["span"] for one in tokens]
    before = spans.count(None)
    assert before > 1
    assert spans[:before] == [None] * before
    assert spans[before][0] == 0


def test_a_text_may_begin_with_no_special_token(client, folders):
    """The state of its first word is classified."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / "unled")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folders / "unled")
    texts = ["the old house", "a friend reads", "without a word!"]
    for text, result in zip(texts, posted(client, "/v1/models/unled/classify", inputs=texts)["results"], strict=True):
        with torch.no_grad():
            wanted = model(tokenizer(text, return_tensors="pt").input_ids).logits[0].softmax(-1)
        chances = {one["index"]: one["probability"] for one in result["labels"]}
        assert [chances[index] for index in range(3)] == pytest.approx(wanted.tolist(), abs=1e-5)
    (found,) = posted(client, "/v1/models/unled/classify", inputs="the old", attention={"method": "raw"})["results"]
    assert found["attention"]["tokens"]["source"][0]["span"] == [0, 3]
    assert found["attention"]["maps"][0]["shape"][1:] == [len(found["attention"]["tokens"]["source"])] * 2
    refused = client.post(
        "/v1/models/unled/classify", json={"inputs": "a", "attention": {"method": "raw", "queries": "cls"}}
    )
    assert refused.json()["detail"].startswith("queries: cls needs a class token")
