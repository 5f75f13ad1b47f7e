"""The HTTP interface, spoken to a real process with both bundled models."""

import base64
import concurrent.futures
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from contract.artifact import read_artifact
from contract.generation import Sampling
from model.architectures.vit import DIGITS_MEAN as MEAN
from model.architectures.vit import DIGITS_STD as STD
from model.catalogue import bundled
from model.vocabularies import START, encode
from service.inputs.image_preprocessing import decode_image
from service.options.attention import AttentionOptions
from tests.conftest import served
from tests.samples.documented import Documented
from tests.samples.http_requests import DIGIT_FILES, EVERY_MAP, PNG, SEVEN, WRITTEN_DATES, results
from tests.samples.in_process import in_process

PICTURES = {"zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}


def classify(client, data=SEVEN, **options):
    return results(client.post("/v1/models/digits/classify", content=data, headers=PNG, params=options))[0]


def generate(client, inputs, **options):
    return results(client.post("/v1/models/dates/generate", json={"inputs": inputs, **options}))


def attend(client, inputs, **options):
    answer = client.post("/v1/models/dates/attention", json={"inputs": inputs, "attention": options})
    return [result["attention"] for result in results(answer)]


def parameters(client, operation):
    """Return the names of an operation's parameters."""
    documented = Documented(client)
    return {documented.resolved(one)["name"] for one in operation["parameters"]}


def test_live_and_ready_answer(client):
    assert client.get("/health/live").json() == {"live": True}
    assert client.get("/health/ready").json() == {"ready": True}


def test_the_models_say_what_they_take_answer_and_show(client):
    models = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert models.keys() == {"digits", "dates"}
    for name, model in models.items():
        assert client.get(f"/v1/models/{name}").json() == model
        said = "name version family task state provider precision inputs labels attention limits"
        assert model.keys() >= set(said.split())
        assert model["state"] == "ready"
        assert model["provider"] == "CPUExecutionProvider"
        states = ["similar", "parts"] if name == "digits" else []
        assert model["attention"]["methods"] == ["raw", "rollout", "norm", "relevance", "libra", "integrated", *states]
        fidelity = model["attention"]["fidelity"]
        assert fidelity["row sums"] < 1e-5
        for kind, one in model["attention"]["kinds"].items():
            assert {f"{method}: {kind}" for method in one["methods"]} <= fidelity.keys()
    assert models["digits"]["task"] == "image-classification"
    assert models["digits"]["inputs"] == {"height": 28, "width": 28, "channels": 1}
    assert models["digits"]["labels"] == list("0123456789")
    assert models["digits"]["attention"]["kinds"]["encoder"]["grid"] == {"rows": 7, "columns": 7}
    assert models["dates"]["task"] == "text2text-generation"
    assert models["dates"]["attention"]["kinds"].keys() == {"encoder", "decoder", "cross"}


def test_a_model_that_samples_where_a_request_does_not_say_tells_how(client, light_copy):
    assert "sampling" not in client.get("/v1/models/dates").json()
    file = light_copy / "dates/1/manifest.json"
    manifest = json.loads(file.read_text())
    manifest["generation"]["sampling"] = {"temperature": 2.0, "top_k": 5, "top_p": None, "by_default": True}
    file.write_text(json.dumps(manifest))
    with in_process(light_copy) as other:
        told = Sampling(**manifest["generation"]["sampling"]).model_dump()
        assert other.get("/v1/models/dates").json()["sampling"] == told


def test_metrics_are_histograms_of_every_stage(client):
    classify(client)
    text = client.get("/metrics").text
    for name in ("request", "decode", "queue", "run"):
        assert re.search(rf"^regard_{name}_seconds_bucket{{.*}} [1-9]", text, re.MULTILINE), name
    assert 'regard_requests_total{method="POST",route="/v1/models/{model}/classify",status="200"}' in text
    assert "regard_ready 1.0" in text


def test_metrics_tell_models_apart_by_whatever_protocol_they_are_asked(light):
    with in_process(light) as client:
        classify(client)
        text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["3 May 2021"]}
        assert client.post("/v2/models/dates/infer", json={"inputs": [text]}).status_code == 200
        completion = client.post("/v1/completions", json={"model": "dates", "prompt": "3 May 2021"})
        assert completion.status_code == 200
        assert client.post("/v1/models/dates/generate", json={"inputs": "3 May 2021", "top_k": 0}).status_code == 422
        assert client.post("/v1/models/secret/classify", content=SEVEN).status_code == 404
        assert client.get("/v1/models/digits").status_code == 200
        text = client.get("/metrics").text
    counted = re.findall(r'^regard_model_requests_total{model="(.*)",status="(.*)"} (.*)$', text, re.MULTILINE)
    assert sorted(counted) == [("dates", "200", "2.0"), ("dates", "422", "1.0"), ("digits", "200", "1.0")]
    assert 'regard_model_request_seconds_count{model="dates"} 3.0' in text
    assert 'regard_first_token_seconds_count{model="dates"} 2.0' in text
    assert re.search(r'^regard_generated_tokens_total{model="dates"} [1-9]', text, re.MULTILINE)
    assert "secret" not in text


def test_the_page_and_the_documents_are_served(client):
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/docs").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert {
        "/v1/models/{model}/classify",
        "/v1/models/{model}/generate",
        "/v1/models/{model}/attention",
    } <= paths.keys()
    content = paths["/v1/models/{model}/classify"]["post"]["requestBody"]["content"]
    assert {"image/png", "multipart/form-data", "application/json"} <= content.keys()
    named = parameters(client, paths["/v1/models/{model}/classify"]["post"])
    own = {"top_k", "logits", "labels", "template"}
    assert named == {"model", "attention", "priority", *own, *AttentionOptions.model_fields}


@pytest.mark.parametrize("path", DIGIT_FILES, ids=lambda path: path.name)
def test_a_picture_that_a_person_sends_is_read(client, path):
    best = classify(client, path.read_bytes())["labels"][0]
    assert best["index"] == PICTURES[path.name.partition("-")[0].partition(".")[0]]
    assert best["label"] == str(best["index"])
    assert best["probability"] > 0.8


def test_labels_come_best_first_and_as_many_as_asked(client):
    labels = classify(client, top_k=10)["labels"]
    probabilities = [label["probability"] for label in labels]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)
    assert sorted(label["index"] for label in labels) == list(range(10))
    assert classify(client)["labels"] == labels[:5]


def test_raw_body_form_and_json_answer_the_same(client):
    path = "/v1/models/digits/classify"
    raw = client.post(path, content=SEVEN, headers=PNG, params={"top_k": 2}).json()
    form = client.post(path, files={"image": SEVEN}, data={"top_k": 2}).json()
    mixed = client.post(path, files={"image": SEVEN}, params={"top_k": 2}).json()
    document = client.post(path, json={"images": [base64.b64encode(SEVEN).decode()], "top_k": 2}).json()
    assert raw["results"] == form["results"] == mixed["results"] == document["results"]
    assert raw.keys() == {"id", "model", "version", "results"}
    assert raw["results"][0].keys() == {"labels"}


def test_several_images_of_one_request_answer_in_order_and_as_if_alone(client):
    alone = [classify(client, path.read_bytes()) for path in DIGIT_FILES]
    together = client.post(
        "/v1/models/digits/classify", files=[("image", path.read_bytes()) for path in DIGIT_FILES]
    ).json()
    for one, result in zip(alone, together["results"], strict=True):
        assert [label["index"] for label in one["labels"]] == [label["index"] for label in result["labels"]]
        for mine, theirs in zip(one["labels"], result["labels"], strict=True):
            assert mine["probability"] == pytest.approx(theirs["probability"], abs=1e-6)


def definition(pixels):
    """The float64 forward of the same weights: logits and maps, (layers, heads, query, key)."""
    model = bundled("digits").double()
    x = (torch.tensor(pixels, dtype=torch.float64) / 255 - MEAN) / STD
    with torch.no_grad():
        logits, maps = model(x.permute(2, 0, 1)[None])
    return logits[0].numpy(), torch.stack([maps[f"encoder.blocks.{layer}.attention"][0] for layer in range(4)]).numpy()


def pixels_of(client, data):
    rule = read_artifact(client.artifacts / "digits" / "1").manifest.image
    return decode_image(data, rule, 10**8).pixels


@pytest.fixture
def exact(client, artifacts):
    client.artifacts = artifacts
    return definition(pixels_of(client, SEVEN))


def test_every_map_of_an_image_is_that_of_the_definition(client, exact):
    _, maps = exact
    attention = classify(client, attention="raw", layers="all", heads="all", queries="all", digits=9)["attention"]
    assert attention["method"] == "raw"
    assert [shown["name"] for shown in attention["maps"]] == [f"encoder.blocks.{layer}.attention" for layer in range(4)]
    for layer, shown in enumerate(attention["maps"]):
        assert shown["shape"] == [4, 50, 50]
        assert np.array(shown["values"]) == pytest.approx(maps[layer], abs=1e-5)
    assert maps.max() > 0.2  # attention that is not uniform, or nothing was compared


def test_rollout_of_an_image_is_that_of_the_definition(client, exact):
    joint = np.eye(50)
    for layer in exact[1].mean(1):
        joint = (layer + np.eye(50)) / 2 @ joint
    (shown,) = classify(client, attention="rollout", digits=9)["attention"]["maps"]
    assert np.array(shown["values"]) == pytest.approx(joint[None, :1], abs=1e-5)


def test_probabilities_are_the_same_with_and_without_attention(client, exact):
    looked, plain = classify(client, attention="raw", top_k=10)["labels"], classify(client, top_k=10)["labels"]
    probabilities = np.exp(exact[0]) / np.exp(exact[0]).sum()
    for one, other in zip(looked, plain, strict=True):
        assert one["index"] == other["index"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
        assert one["probability"] == pytest.approx(probabilities[one["index"]], abs=1e-5)


def test_an_image_is_shown_with_its_grid_its_prefix_and_the_rectangle_it_covers(client):
    attention = classify(client, attention="raw")["attention"]
    assert attention["tokens"] == {"grid": {"rows": 7, "columns": 7}, "prefix": 1}
    assert (attention["image"]["width"], attention["image"]["height"]) == (300, 220)
    box = attention["image"]["box"]
    assert box["right"] - box["left"] == pytest.approx(box["bottom"] - box["top"])
    assert 40 < box["left"] < 110 < 180 < box["right"] < 260


def test_the_attention_endpoint_answers_attention_alone(client):
    path = "/v1/models/digits/attention"
    beside = classify(client, attention="rollout", digits=3)["attention"]
    for params in ({"attention": "rollout", "digits": 3}, {"method": "rollout", "digits": 3}):
        assert client.post(path, content=SEVEN, headers=PNG, params=params).json()["results"] == [{"attention": beside}]
    encoded = base64.b64encode(SEVEN).decode()
    for options in ({"attention": {"method": "rollout", "digits": 3.0}}, {"method": "rollout", "digits": 3}):
        assert client.post(path, json={"images": [encoded], **options}).json()["results"] == [{"attention": beside}]
    (default,) = client.post(path, content=SEVEN, headers=PNG).json()["results"]
    assert default["attention"] == classify(client, attention="raw")["attention"]


@pytest.mark.parametrize("text", WRITTEN_DATES)
def test_a_written_date_becomes_iso_8601(client, text):
    (result,) = generate(client, text)
    assert result["text"] == "2021-03-23"
    assert result["finish_reason"] == "stop"
    assert -0.1 < result["score"] <= 0
    assert "".join(token["text"] for token in result["tokens"]) == result["text"]
    assert [token["index"] for token in result["tokens"]] == list(range(10))


def test_texts_of_mixed_lengths_answer_in_order_and_as_if_alone(client):
    alone = [generate(client, text)[0] for text in WRITTEN_DATES]
    together = generate(client, WRITTEN_DATES)
    for one, result in zip(alone, together, strict=True):
        assert one["text"] == result["text"]
        assert one["score"] == pytest.approx(result["score"], abs=1e-5)


def test_beam_search_scores_at_least_as_well_as_greedy(client):
    for text in [*WRITTEN_DATES, "no date at all", "99/99/99"]:
        (greedy,), (beams,) = generate(client, text), generate(client, text, num_beams=4)
        assert beams["score"] >= greedy["score"] - 1e-6


def test_sampling_repeats_with_its_seed(client):
    options = {"temperature": 5.0, "top_k": 20, "top_p": 0.99}
    once, again = (generate(client, "something", seed=3, **options)[0]["text"] for _ in range(2))
    others = {generate(client, "something", seed=seed, **options)[0]["text"] for seed in range(8)}
    assert once == again
    assert len(others) > 1


def test_the_answer_says_that_a_text_was_cut(client):
    (result,) = generate(client, WRITTEN_DATES[0], max_new_tokens=4)
    assert (result["text"], result["finish_reason"]) == ("2021", "length")


@pytest.mark.parametrize("text", ["?", "yesterday", "💥" * 10, "\u0000", "31/02/2021", "\u0627" * 96, "[END][PAD]"])
def test_an_impossible_date_gets_whatever_the_model_says_and_its_score(client, text):
    (result,) = generate(client, text)
    assert result["score"] <= 0


def events(client, **document):
    with client.stream("POST", "/v1/models/dates/generate", json={"stream": True, **document}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        body = "".join(answer.iter_text())
    return [
        (event.split("\n")[0].removeprefix("event: "), json.loads(event.split("\n")[1].removeprefix("data: ")))
        for event in body.strip().split("\n\n")
    ]


def test_a_stream_sends_a_token_at_a_time_and_then_the_whole_answer(client):
    found = events(client, inputs=WRITTEN_DATES[0], attention={"method": "raw", "kind": "cross"})
    assert [name for name, _ in found] == ["token"] * 10 + ["done"]
    assert "".join(token["text"] for _, token in found[:-1]) == "2021-03-23"
    assert [token["index"] for _, token in found[:-1]] == list(range(10))
    (plain,) = generate(client, WRITTEN_DATES[0], attention={"method": "raw", "kind": "cross"})
    (streamed,) = found[-1][1]["results"]
    assert streamed["text"] == plain["text"]
    assert streamed["attention"]["tokens"] == plain["attention"]["tokens"]


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"temperature": 3.0, "seed": 5, "top_p": 0.99}])
def test_a_generated_token_is_shown_with_the_likeliest_tokens_of_its_place(client, options):
    (result,) = generate(client, WRITTEN_DATES[0], alternatives=4, **options)
    tokens = [token["token"] for token in result["tokens"]]
    model, source = bundled("dates").double(), torch.tensor([encode(WRITTEN_DATES[0])])
    with torch.no_grad():
        logits, _ = model(source, source >= 0, torch.tensor([[START, *tokens]]))
    logs = torch.log_softmax(logits[0], -1).numpy()
    texts = {token["token"]: token["text"] for token in result["tokens"]}
    for place, token in enumerate(result["tokens"]):
        shown = token["alternatives"]
        assert [one["log_probability"] for one in shown] == pytest.approx(-np.sort(-logs[place])[:4], abs=1e-3)
        assert [logs[place, one["token"]] for one in shown] == pytest.approx(-np.sort(-logs[place])[:4], abs=1e-3)
        assert all(one["text"] == texts.get(one["token"], one["text"]) for one in shown)
        if not options:
            assert shown[0] == {name: token[name] for name in ("token", "text", "log_probability")}
    (plain,) = generate(client, WRITTEN_DATES[0], **options)
    for token in result["tokens"]:
        token.pop("alternatives")
    assert plain == {**result, "score": pytest.approx(result["score"])}


def test_a_stream_has_the_alternatives_that_the_whole_answer_has(client):
    *tokens, (_, done) = events(client, inputs=WRITTEN_DATES[0], alternatives=3)
    (result,) = done["results"]
    assert [token["alternatives"] for _, token in tokens] == [token["alternatives"] for token in result["tokens"]]
    assert all(len(token["alternatives"]) == 3 for _, token in tokens)
    kept = client.get(f"/v1/attention/{done['id']}?kind=cross").json()["results"][0]["attention"]
    assert kept["maps"][0]["shape"] == [1, 11, len(WRITTEN_DATES[0])]


def test_the_openapi_document_names_the_options_of_tokens_and_of_sizes(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path, method in (("/v1/models/{model}/attention", "post"), ("/v1/attention/{id}", "get")):
        assert {"pool", "width"} <= parameters(client, paths[path][method])
    assert "alternatives" in parameters(client, paths["/v1/models/{model}/generate"]["post"])


def test_every_map_of_a_text_is_that_of_the_definition_alone_and_in_a_mixed_batch(client):
    model = bundled("dates").double()
    for text, attention in zip(WRITTEN_DATES, attend(client, WRITTEN_DATES, **EVERY_MAP), strict=True):
        emitted = [START, *encode("2021-03-23")]
        source = torch.tensor([encode(text)])
        with torch.no_grad():
            _, maps = model(source, source >= 0, torch.tensor([emitted]))
        assert {shown["kind"] for shown in attention["maps"]} == {"encoder", "decoder", "cross"}
        assert {shown["name"] for shown in attention["maps"]} == maps.keys()
        for shown in attention["maps"]:
            assert np.array(shown["values"]) == pytest.approx(maps[shown["name"]][0].numpy(), abs=2e-5)


def test_maps_of_a_text_hold_no_padding_and_their_rows_sum_to_one(client):
    for text, attention in zip(WRITTEN_DATES, attend(client, WRITTEN_DATES, **EVERY_MAP), strict=True):
        lengths = {"encoder": (len(text), len(text)), "decoder": (11, 11), "cross": (11, len(text))}
        for shown in attention["maps"]:
            assert tuple(shown["shape"]) == (4, *lengths[shown["kind"]])
            assert np.array(shown["values"]).sum(-1) == pytest.approx(1, abs=1e-4)


def test_a_decoder_row_never_looks_ahead(client):
    (attention,) = attend(client, WRITTEN_DATES[0], **EVERY_MAP, kind="decoder")
    for shown in attention["maps"]:
        assert not np.triu(np.array(shown["values"]), 1).any()


def test_tokens_carry_their_place_in_the_text_that_was_sent(client):
    text = "The 3rd of Março 2021"
    (attention,) = attend(client, text, kind="cross")
    source = attention["tokens"]["source"]
    assert [token["span"] for token in source] == [[place, place + 1] for place in range(len(text))]
    assert source[0] == {"text": "t", "span": [0, 1], "special": False}
    assert text[source[14]["span"][0]] == "ç"
    target, fed = attention["tokens"]["target"], attention["tokens"]["target_input"]
    assert [token["text"] for token in target][-1] == "[END]"
    assert (target[-1]["span"], target[-1]["special"]) == (None, True)
    assert (fed[0]["text"], fed[0]["special"]) == ("[START]", True)
    assert fed[1:] == target[:-1]


def test_text_attention_defaults_to_the_last_layer_of_every_kind_and_all_rows(client):
    (attention,) = attend(client, WRITTEN_DATES[1])
    assert [(shown["kind"], shown["layer"], shown["heads"]) for shown in attention["maps"]] == [
        ("encoder", 2, "mean"), ("decoder", 2, "mean"), ("cross", 2, "mean"),
    ]  # fmt: skip
    assert [shown["shape"] for shown in attention["maps"]] == [[1, 7, 7], [1, 11, 11], [1, 11, 7]]


def test_rollout_of_a_text_covers_encoder_and_decoder(client):
    (attention,) = attend(client, WRITTEN_DATES[1], method="rollout")
    assert [shown["kind"] for shown in attention["maps"]] == ["encoder", "decoder"]
    for shown in attention["maps"]:
        assert np.array(shown["values"]).sum(-1) == pytest.approx(1, abs=1e-4)


def test_the_year_in_the_answer_looks_at_the_year_in_the_text(client):
    """The bundled model's cross-attention visibly aligns: some head of some layer points from year to year."""
    text = "on 17 October 1984"
    (attention,) = attend(client, text, kind="cross", layers="all", heads="all")
    values = np.concatenate([np.array(shown["values"]) for shown in attention["maps"]])  # (layers x heads, rows, keys)
    year = slice(text.index("1984"), None)
    assert values[:, 1:4, year].sum(-1).mean(-1).max() > 0.6


def test_a_request_keeps_the_id_that_the_client_gave_if_it_is_harmless(client):
    answer = client.get("/health/live", headers={"X-Request-Id": "abc-1.2_3"})
    assert answer.headers["X-Request-Id"] == "abc-1.2_3"
    for given in ("x" * 65, "a b", 'a"b'):
        assert client.get("/health/live", headers={"X-Request-Id": given}).headers["X-Request-Id"] != given


def test_every_log_line_is_json_and_says_what_was_answered(light):
    with served(light) as client:
        classify(client)
        client.get("/nowhere")
    requests = [line for line in client.log if line["event"] == "request"]
    assert [(line["status"], line["route"]) for line in requests] == [
        (200, "/v1/models/{model}/classify"),
        (404, "other"),
    ]
    assert requests[0]["received"] == len(SEVEN)


def test_a_full_queue_answers_429_and_when_to_come_again(light):
    with in_process(light, queue_tokens=1) as client, concurrent.futures.ThreadPoolExecutor(24) as pool:
        sent = [
            pool.submit(client.post, "/v1/models/dates/generate", json={"inputs": WRITTEN_DATES[0], "num_beams": 8})
            for _ in range(48)
        ]
        answers = [one.result() for one in sent]
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["detail"].startswith("queue of predictions: at most 1 may wait")


EIGHT_IMAGES = {"files": [("image", SEVEN)] * 8}


@pytest.mark.parametrize(
    ("setting", "path", "request_of"),
    [
        ("queue_tokens", "digits/classify", EIGHT_IMAGES),
        ("queue_map_bytes", "digits/classify", EIGHT_IMAGES | {"params": {"attention": "raw"}}),
        ("queue_map_bytes", "digits/attention", EIGHT_IMAGES),
        ("queue_map_bytes", "dates/generate", {"json": {"inputs": WRITTEN_DATES, "attention": {"method": "raw"}}}),
    ],
)
def test_images_and_maps_have_queues_that_can_be_full_too(light, setting, path, request_of):
    with in_process(light, **{setting: 1}) as client, concurrent.futures.ThreadPoolExecutor(24) as pool:
        sent = [pool.submit(client.post, f"/v1/models/{path}", **request_of) for _ in range(48)]
        assert {one.result().status_code for one in sent} == {200, 429}


def test_the_held_out_scans_are_read_through_the_service_as_well_as_by_the_recipe(client):
    """The recipe centres its scans by a rule of its own; this holds the service's decoding to the same figure."""
    images, labels = load_digits(return_X_y=True)
    _, held, _, wanted = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    right = 0
    for start in range(0, len(held), 30):
        files = []
        for scan in held[start : start + 30]:
            file = io.BytesIO()
            Image.fromarray((scan.reshape(8, 8) * 255 / 16).astype(np.uint8)).save(file, "PNG")
            files.append(("image", file.getvalue()))
        answer = client.post("/v1/models/digits/classify", files=files, params={"top_k": 1}).json()
        found = [result["labels"][0]["index"] for result in answer["results"]]
        right += int((np.array(found) == wanted[start : start + 30]).sum())
    assert right / len(held) >= 0.985


def test_a_request_may_say_that_it_can_wait(client):
    for priority, status in (("interactive", 200), ("batch", 200), ("urgent", 422)):
        image = client.post(
            "/v1/models/digits/classify",
            content=DIGIT_FILES[0].read_bytes(),
            headers=PNG,
            params={"priority": priority, "attention": "rollout"},
        )
        document = {"inputs": WRITTEN_DATES[0], "priority": priority}
        text = client.post("/v1/models/dates/generate", json=document)
        assert (image.status_code, text.status_code) == (status, status)
