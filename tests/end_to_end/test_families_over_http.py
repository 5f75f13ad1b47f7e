"""Checkpoints of every family, exported and served: what a client gets is what the reference library computes."""

import json

import numpy as np
import pytest
import torch
import transformers

from tests.samples.checkpoints import CASES, EXPORTED, checkpoint_of, reference
from tests.samples.documented import Documented
from tests.samples.fidelity import WITH_MAPS, pooled
from tests.samples.http_requests import EVERY_MAP, results
from tests.samples.images import encoded as encoded_image
from tests.samples.in_process import in_process
from tests.samples.reference_images import photograph, processed
from tests.samples.reference_texts import (
    ASKED,
    LANGUAGES,
    TEXTS,
    decoded,
    encoded,
    generated_by,
    sentences,
    tokenizer_of,
)

transformers.logging.set_verbosity_error()
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def client(every_family):
    with in_process(every_family) as client:
        yield client


def post(client, name, endpoint, **body):
    return results(client.post(f"/v1/models/{name}/{endpoint}", json=body))


def of_task(*tasks):
    return [name for name in EXPORTED if CASES[name].task in tasks]


def test_answers_have_the_fields_that_the_openapi_document_names(client):
    documented = Documented(client)
    for name, endpoint in (
        *((name, "classify") for name in of_task("text-classification")),
        *((name, "embed") for name in of_task("feature-extraction")),
        *((name, "embed-sparse") for name in of_task("sparse-embedding")),
        *((name, "fill-mask") for name in of_task("fill-mask")),
        *((name, "tag") for name in of_task("token-classification")),
        *((name, "answer") for name in of_task("question-answering")),
    ):
        model = documented.check(client.get(f"/v1/models/{name}")).json()
        if "max_tokens" in model["inputs"]:
            body = {"inputs": f"the cat {model['inputs'].get('mask', 'sat')}", "attention": {"method": "raw"}}
            documented.check(client.post(f"/v1/models/{name}/{endpoint}", json=body))
        if endpoint == "answer":
            question = {"question": "the cat", "context": "a good dog on a mat"}
            for method in ("libra", "relevance", "raw"):
                asked = {"inputs": question, "top_k": 2, "impossible": True, "attention": {"method": method}}
                documented.check(client.post(f"/v1/models/{name}/answer", json=asked))
            documented.check(client.post(f"/v1/models/{name}/attention", json={"inputs": question, "most_tokens": 2}))
            for count in (1, 2):
                asked = {"inputs": question, "parameters": {"top_k": count}}
                documented.check(client.post(f"/v1/models/{name}", json=asked))
            continue
        if endpoint == "embed-sparse":
            for path in ("tei/embed_sparse", "attention"):
                documented.check(client.post(f"/v1/models/{name}/{path}", json={"inputs": ["the cat", "sat"]}))
            asked = {"inputs": "the cat", "top_k": 3, "attention": {"method": "libra", "against": {"text": "a"}}}
            documented.check(client.post(f"/v1/models/{name}/embed-sparse", json=asked))
            documented.check(client.get(f"/v1/models/{name}/tei/info"))
        if endpoint == "tag":
            for method, entities in (("libra", []), ("relevance", ["O"])):
                asked = {"inputs": "a good dog on a mat", "ignore": entities, "attention": {"method": method}}
                documented.check(client.post(f"/v1/models/{name}/tag", json=asked))
            for strategy in ("none", "max"):
                asked = {"inputs": "a good dog on a mat", "parameters": {"aggregation_strategy": strategy}}
                documented.check(client.post(f"/v1/models/{name}", json=asked))
        if "rerank" in model["endpoints"]:
            asked = {"query": "the cat", "texts": ["sat", "a dog"], "attention": {}, "return_texts": True}
            documented.check(client.post(f"/v1/models/{name}/rerank", json=asked))
            asked = {"query": "the cat", "texts": ["sat", "a dog"], "return_text": True}
            documented.check(client.post(f"/v1/models/{name}/tei/rerank", json=asked))
        if endpoint == "classify":
            pair = {"text": "the cat", "text_pair": "sat"}
            for path, asked in (
                (endpoint, {"inputs": pair, "attention": {}}),
                ("attention", {"inputs": [pair], "attention": {"queries": "all"}}),
                ("tei/predict", {"inputs": ["the cat", "sat"]}),
            ):
                documented.check(client.post(f"/v1/models/{name}/{path}", json=asked))
            documented.check(client.get(f"/v1/models/{name}/tei/info"))


# Images


@pytest.mark.parametrize("name", of_task("image-classification"))
def test_an_image_is_prepared_and_predicted_as_by_the_reference_library(client, name):
    pixels = torch.tensor(processed(name, photograph()), dtype=torch.float64)
    more = {"interpolate_pos_encoding": True} if name == "vit-larger" else {}
    with torch.no_grad():
        out = reference(checkpoint_of(name))(pixels, output_attentions=True, **more)
    query = {"attention": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 7}
    sent = {"image": encoded_image(photograph())}
    (result,) = results(client.post(f"/v1/models/{name}/classify", params=query, files=sent))
    wanted = out.logits.softmax(-1)
    given = {label["label"]: label["probability"] for label in result["labels"]}
    assert given == {
        label: pytest.approx(float(wanted[0, i]), abs=TOLERANCE) for i, label in enumerate(("cat", "dog", "bird"))
    }
    assert list(given.values()) == sorted(given.values(), reverse=True)
    if name in WITH_MAPS:
        for shown, maps in zip(result["attention"]["maps"], out.attentions, strict=True):
            assert np.abs(np.array(shown["values"]) - maps[0].numpy()).max() < TOLERANCE


# Texts


@pytest.mark.parametrize("name", of_task("text-classification"))
def test_texts_and_pairs_are_classified_as_by_the_reference_library(client, name):
    model = reference(checkpoint_of(name))
    inputs = [*TEXTS, {"text": TEXTS[1], "text_pair": TEXTS[0]}, {"text": "", "text_pair": TEXTS[3]}]
    found = post(client, name, "classify", inputs=inputs, attention=EVERY_MAP)
    for given, result in zip(inputs, found, strict=True):
        texts = (given["text"], given["text_pair"]) if isinstance(given, dict) else (given,)
        encoding = tokenizer_of(name).encode(*texts)
        typed = getattr(model.config, "type_vocab_size", 0) > 1
        types = {"token_type_ids": torch.tensor([encoding.type_ids])} if typed else {}
        with torch.no_grad():
            out = model(torch.tensor([encoding.ids]), output_attentions=True, **types)
        apart = model.config.problem_type == "multi_label_classification" or model.config.num_labels == 1
        wanted = out.logits.sigmoid() if apart else out.logits.softmax(-1)
        measure = "probability"
        if getattr(model.config, "sentence_transformers", None):  # which declares that logits stay as they are
            wanted, measure = out.logits, "score"
        shares = {label["index"]: label[measure] for label in result["labels"]}
        assert shares == {i: pytest.approx(float(wanted[0, i]), abs=TOLERANCE) for i in range(wanted.shape[1])}
        both = ("encoder_attentions", "decoder_attentions", "cross_attentions")
        wanted = out.attentions if "attentions" in out else [layer for kind in both for layer in out[kind]]
        for shown, maps in zip(result["attention"]["maps"], wanted, strict=True):
            assert np.abs(np.array(shown["values"]) - maps[0].numpy()).max() < TOLERANCE
        source = result["attention"]["tokens"]["source"]
        assert [token["span"] for token in source] == [
            None if special else list(span)
            for span, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
        ]
        if isinstance(given, dict):
            assert [token.get("sequence") for token in source] == encoding.sequence_ids


def test_rows_of_relevance_are_words_where_tokens_are_merged(client):
    text, look = "understanding the catastrophe, sat", {"method": "relevance", "digits": 9}

    def shown(**options):
        (result,) = post(client, "bert", "attention", inputs=[text], attention={**look, **options})
        (one,) = result["attention"]["maps"]
        return np.array(one["values"])[0], result["attention"]["tokens"]["source"]

    tokens_map, pieces = shown(queries="all")
    words_map, words = shown(queries="all", merge="words")
    assert len(words) < len(pieces)
    groups = []
    for piece in pieces:
        inside = [number for number, word in enumerate(words) if piece["span"] and word["span"]
                  and word["span"][0] <= piece["span"][0] < word["span"][1]]  # fmt: skip
        groups.append(inside[0] if inside else 0 if not groups else len(words) - 1)
    member = np.eye(len(words))[groups].T  # (word, token)
    wanted = member / member.sum(1, keepdims=True) @ tokens_map @ member.T
    assert words_map.shape == wanted.shape
    assert np.abs(words_map - wanted).max() < 1e-5
    some, _ = shown(queries=[-2, 1], merge="words")
    assert np.abs(some - wanted[[-2, 1]]).max() < 1e-5


@pytest.mark.parametrize("name", of_task("fill-mask"))
def test_masks_are_filled_as_by_the_reference_library(client, name):
    model, mask, tokenizer = reference(checkpoint_of(name)), CASES[name].mask, tokenizer_of(name)
    texts = [f"the {mask} sat on the mat", f"{mask} and {mask}", f"a good {mask}."]
    for text, result in zip(texts, post(client, name, "fill-mask", inputs=texts, top_k=100), strict=True):
        encoding = tokenizer.encode(text)
        with torch.no_grad():
            out = model(torch.tensor([encoding.ids]))
        logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
        places = [place for place, index in enumerate(encoding.ids) if index == tokenizer.token_to_id(mask)]
        assert len(result["candidates"]) == len(places) == text.count(mask)
        for place, candidates in zip(places, result["candidates"], strict=True):
            best = logits[0, place].softmax(-1).topk(100)
            assert [one["token"] for one in candidates] == best.indices.tolist()
            assert [one["probability"] for one in candidates] == pytest.approx(best.values.tolist(), abs=TOLERANCE)
            assert [one["text"] for one in candidates] == [
                tokenizer.decode([one["token"]], skip_special_tokens=False) for one in candidates
            ]


@pytest.mark.parametrize(
    "name", [name for name in of_task("feature-extraction") if CASES[name].tokenizer and not CASES[name].tower]
)
def test_texts_are_embedded_as_their_folder_declares(client, name):
    model, declared = reference(checkpoint_of(name)), CASES[name].pooling
    for text, result in zip(TEXTS, post(client, name, "embed", inputs=TEXTS), strict=True):
        tokens = torch.tensor([tokenizer_of(name).encode(text).ids])
        with torch.no_grad():
            states = model(tokens).last_hidden_state
        wanted = pooled(states, torch.ones_like(tokens, dtype=torch.bool).numpy(), declared or "mean")[0]
        wanted = wanted / wanted.norm() if declared else wanted
        assert np.abs(np.array(result["embedding"]) - wanted.numpy()).max() < TOLERANCE


def test_the_answer_for_a_text_is_the_same_alone_or_in_any_batch(client):
    together = post(client, "bert-features", "embed", inputs=TEXTS * 4)
    for place, text in enumerate(TEXTS):
        (alone,) = post(client, "bert-features", "embed", inputs=text)
        for copy in together[place :: len(TEXTS)]:
            assert np.abs(np.subtract(alone["embedding"], copy["embedding"])).max() < 1e-6


def test_a_text_that_is_too_long_is_refused_or_cut_as_the_reference_library_cuts(client):
    long = "cat " * 50
    answer = client.post("/v1/models/bert/classify", json={"inputs": long})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "input: at most 40 tokens, given 52"
    (cut,) = post(client, "bert", "classify", inputs=long, truncate=True)
    (short,) = post(client, "bert", "classify", inputs="cat " * 38)
    assert cut == short


@pytest.mark.parametrize(
    ("name", "endpoint", "body", "words"),
    [
        ("bert-mask", "fill-mask", {"inputs": "no mask"}, "input: must hold [MASK] 1 to 64 times, given 0"),
        (
            "bert-features",
            "embed",
            {"inputs": {"text": "a", "text_pair": "b"}},
            "text_pair: is for text-classification",
        ),
        ("bart", "generate", {"inputs": {"text": "a", "text_pair": "b"}}, "text_pair: is for text-classification"),
        ("bert", "classify", {"inputs": {"text": "a"}}, "inputs: must be a string or a list of strings, or of pairs"),
        ("bert", "classify", {"inputs": ["a", 1]}, "inputs: must be a string or a list of strings, or of pairs"),
        (
            "vit",
            "classify",
            {"images": ["aGk="], "truncate": True},
            "options: unknown option; known are attention, logits, priority, top_k",
        ),
        ("bert", "classify", {"inputs": "a", "top_k": 0}, "top_k"),
        ("gpt2", "generate", {"inputs": "the " * 60}, "input: at most"),
        (
            "gpt2",
            "generate",
            {"inputs": "the cat", "max_new_tokens": 47},
            "max_new_tokens: at most 45 behind an input of 3",
        ),
    ],
)
def test_what_a_model_cannot_answer_is_refused_in_words(client, name, endpoint, body, words):
    answer = client.post(f"/v1/models/{name}/{endpoint}", json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]


# Generation


def generates(client, name, texts, asked, language=None, **of_theirs):
    """Hold what a request generates of texts against the reference library; give the tokens of each."""
    model = reference(checkpoint_of(name))
    for text, result in zip(texts, post(client, name, "generate", inputs=texts, **asked), strict=True):
        wanted = generated_by(model, encoded(name, text, language), **of_theirs)
        assert [token["token"] for token in result["tokens"]] == wanted, (asked, text)
        assert result["finish_reason"] in ("stop", "length")
        assert result["text"] == decoded(name, wanted)
        yield tuple(wanted)


@pytest.mark.parametrize("name", of_task("text-generation", "text2text-generation"))
def test_generation_is_the_reference_library_s_token_for_token(client, name):
    """Of few inputs, which show that a request's options arrive; test_definitions.py holds more of them."""
    found = set()
    for number, asked in enumerate(ASKED):
        found.update(generates(client, name, sentences(name, 4, number), asked, **asked))
    assert len(found) > 4  # a model that always says the same would prove little


TRANSLATES = [name for name in LANGUAGES if name in EXPORTED]


@pytest.mark.parametrize("name", TRANSLATES)
def test_a_request_chooses_the_languages(client, name):
    """From each of two languages to the other, and to one of them from the model's own."""
    languages, found = LANGUAGES[name], set()
    ours, theirs = languages.tokens
    for seed, (code, target) in enumerate([(ours, theirs), (theirs, ours), (None, ours)]):
        asked = {"target_language": target} | ({"source_language": code} if code else {})
        choice = {languages.choice: languages.tokens[target]}
        found.update(generates(client, name, sentences(name, 4, seed), asked, code, **choice))
    assert len(found) > 4


def maps_of(out):
    """Return the reference library's maps by kind."""
    return {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}


def assert_maps(shown, maps):
    for detected in shown:
        assert (
            np.abs(np.array(detected["values"]) - maps[detected["kind"]][detected["layer"]][0].numpy()).max()
            < TOLERANCE
        )


def test_attention_of_a_translation_is_that_of_its_languages(client):
    """Beside the answer, and by the id of the answer, which tells the languages."""
    for name in TRANSLATES:
        model, languages = reference(checkpoint_of(name)), LANGUAGES[name]
        (source_code, target_code), starts = languages.tokens, languages.choice == "decoder_start_token_id"
        asked = {"source_language": source_code, "target_language": target_code, "num_beams": 1, "max_new_tokens": 5}
        body = {"inputs": "the cat", **asked, "attention": EVERY_MAP}
        answer = client.post(f"/v1/models/{name}/generate", json=body)
        (result,) = answer.json()["results"]
        later = client.get(f"/v1/attention/{answer.json()['id']}", params=EVERY_MAP | {"diagnostics": True}).json()
        assert later["results"][0]["attention"]["maps"] == result["attention"]["maps"]
        made = [token["token"] for token in result["tokens"]]
        start = languages.tokens[target_code] if starts else 2
        assert starts or made[0] == languages.tokens[target_code]
        source = torch.tensor([encoded(name, "the cat", source_code)])
        fed = [start, *made] if len(made) < 5 else [start, *made[:-1]]  # an end token is not among them
        with torch.no_grad():
            out = model(source, decoder_input_ids=torch.tensor([fed]), output_attentions=True)
        assert_maps(result["attention"]["maps"], maps_of(out))
        axes = result["attention"]["tokens"]
        marks = [token["text"] for token in axes["source"] if token["special"]]
        assert source_code in marks
        assert (axes["target_input"][0]["text"] == target_code) == starts
        special = np.array([token["special"] for token in axes["target_input"]])
        assert special.sum() >= 1 + (not starts), "the token of the language is special wherever it stands"
        (figures,) = [one for one in later["results"][0]["attention"]["diagnostics"] if one["kind"] == "decoder"]
        mass = [layer[0][..., special].sum(-1).mean(-1).numpy() for layer in out.decoder_attentions]
        assert np.abs(np.array(figures["special"]) - mass).max() < TOLERANCE


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("mbart", {"target_language": "tlh_Latn"}, "target_language: must be one of de_DE, en_XX, fr_XX, given"),
        ("mbart", {"source_language": "<b>"}, "source_language: String should match pattern"),
        ("bart", {"source_language": "en"}, "source_language: is for models that translate among several languages"),
        ("gpt2", {"target_language": "en"}, "target_language: is for models that translate among several languages"),
    ],
)
def test_a_language_that_a_model_does_not_have_is_refused(client, name, body, words):
    answer = client.post(f"/v1/models/{name}/generate", json={"inputs": "the cat", **body})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(words)


def test_a_model_says_its_languages(client):
    models = {one["name"]: one for one in client.get("/v1/models").json()["models"]}
    assert models["mbart"]["languages"] == {"codes": ["de_DE", "en_XX", "fr_XX"], "source": "en_XX", "target": "en_XX"}
    assert "languages" not in models["bart"]


def test_a_client_of_hugging_face_chooses_the_languages_by_its_own_names(client):
    body = {"inputs": "the cat", "parameters": {"src_lang": "de_DE", "tgt_lang": "fr_XX"}}
    (theirs,) = client.post("/v1/models/mbart", json=body).json()
    (ours,) = post(client, "mbart", "generate", inputs="the cat", source_language="de_DE", target_language="fr_XX")
    assert theirs["translation_text" if "translation_text" in theirs else "generated_text"] == ours["text"]


@pytest.mark.parametrize("name", of_task("text-generation", "text2text-generation"))
def test_attention_of_a_generated_text_is_that_of_one_forward_pass_over_it(client, name):
    model = reference(checkpoint_of(name))
    continues = CASES[name].task == "text-generation"
    text = "the old house"
    (result,) = post(client, name, "generate", inputs=text, max_new_tokens=6, num_beams=1, attention=EVERY_MAP)
    source = torch.tensor([encoded(name, text)])
    made = [token["token"] for token in result["tokens"]]
    fed = made if len(made) < 6 else made[:-1]  # an end token is not among them
    forced = model.generation_config.forced_eos_token_id is not None
    assert (result["finish_reason"] == "length") == (len(made) == 6 or (forced and len(made) == 5))
    with torch.no_grad():
        if continues:
            out = model(torch.cat((source, torch.tensor([fed], dtype=torch.long)), 1), output_attentions=True)
            kinds = {"decoder": out.attentions}
        else:
            start = model.generation_config.decoder_start_token_id
            out = model(source, decoder_input_ids=torch.tensor([[start, *fed]]), output_attentions=True)
            kinds = maps_of(out)
    shown = result["attention"]["maps"]
    assert [(one["kind"], one["layer"]) for one in shown] == [
        (kind, layer) for kind, maps in kinds.items() for layer in range(len(maps))
    ]
    assert_maps(shown, kinds)
    axes = result["attention"]["tokens"]
    keys = len(kinds["decoder"][0][0, 0])
    assert len(axes["target"]) == len(axes["target_input"]) == keys
    if continues:  # places count through the text that was sent and the one that continues it
        whole = text + result["text"]
        assert (
            "".join(whole[slice(*token["span"])] for token in axes["target_input"] if token["span"])  # special: none
            == whole[: axes["target_input"][-1]["span"][1]]
        )


def test_a_stream_of_tokens_makes_the_text(client):
    body = {"inputs": "the old house", "stream": True, "num_beams": 1}
    for name in ("gpt2", "bart", "marian"):
        answer = client.post(f"/v1/models/{name}/generate", json=body)
        events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
        done = json.loads(events[-1][1].removeprefix("data: "))["results"][0]
        said = [json.loads(data.removeprefix("data: ")) for kind, data in events[:-1]]
        assert [one["token"] for one in said] == [one["token"] for one in done["tokens"]]
        assert done["text"].startswith("".join(one["text"] for one in said).rstrip("�"))


@pytest.mark.parametrize("name", EXPORTED)
def test_the_examples_of_a_checkpoint_are_answered(client, name):
    model = client.get(f"/v1/models/{name}").json()
    assert bool(model["examples"]) == (model["inputs"].get("channels") != 1)  # photographs suit colour images
    assert (model["about"], model["order"]) == (None, 100)
    for example in model["examples"]:
        if "image" not in example:
            inputs = example if model["task"] == "question-answering" else list(example.values())
            assert post(client, name, model["endpoints"][0], inputs=inputs)
            continue
        photo = client.get(example["image"]).content
        assert len(photo) <= 40_000
        path = f"/v1/models/{name}/{model['endpoints'][0]}"
        assert client.post(path, content=photo, headers={"Content-Type": "image/jpeg"}).json()["results"]


def test_a_model_says_what_it_takes_and_what_it_answers(client):
    listed = {one["name"]: one for one in client.get("/v1/models").json()["models"]}
    assert listed.keys() == set(EXPORTED)
    assert listed["bert"]["inputs"] == {"max_tokens": 40}
    assert listed["bert"]["labels"] == ["cat", "dog", "bird"]
    assert listed["bert"]["endpoints"] == ["classify", "attention"]
    assert listed["bert-rank"]["endpoints"] == ["classify", "rerank", "attention"]
    assert listed["bert-features"]["endpoints"] == ["embed", "similarity", "attention"]
    assert listed["bert-sparse"]["endpoints"] == ["embed-sparse", "attention"]
    assert listed["bert-sparse"]["inputs"]["prompts"] == {"query": "one ", "document": ""}
    assert listed["bert-mask"]["inputs"] == {"max_tokens": 40, "mask": "[MASK]"}
    assert listed["bert-mask"]["endpoints"] == ["fill-mask", "attention"]
    assert listed["vit-features"]["endpoints"] == ["embed", "attention"]
    assert listed["dinov2-registers"]["attention"]["kinds"]["encoder"]["prefix"] == 4
    assert listed["gpt2"]["attention"]["kinds"].keys() == {"decoder"}
