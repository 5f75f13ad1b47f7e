"""The OpenAPI document: what generators make clients of."""

import asyncio
import json
import re
import threading
from types import SimpleNamespace

import httpx
import pytest

import service.app as app_module
from service.api.protocols import read_operations
from service.app import create_admin, create_app
from service.options.attention import AttentionOptions
from service.settings import Settings

PREDICTIONS = (
    "answer", "classify", "detect", "embed", "embed_sparse", "fill_mask", "generate", "rerank", "similarity", "tag",
    "transcribe", "attention",
)  # fmt: skip
PROTOCOLS = ("open_inference_", "openai_", "hugging_face_", "tei_", "jina_", "cohere_", "vllm_")


@pytest.fixture(scope="module")
def document():
    return create_app(Settings(), {}, None).openapi()


@pytest.fixture(scope="module")
def operations(document):
    return {one["operationId"]: one for path in document["paths"].values() for one in path.values()}


def every(value, name):
    """Yield all members of a name in a document."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key == name:
                yield one
            yield from every(one, name)
    elif isinstance(value, list):
        for item in value:
            yield from every(item, name)


def test_every_operation_has_a_name_of_its_own_that_says_what_it_does(document, operations):
    assert len(operations) == sum(map(len, document["paths"].values()))
    assert not [name for name in operations if not re.fullmatch("[a-z]+(_[a-z]+)*", name)]
    ours = "live ready metrics list_models get_model get_example stored_attention kept_input inside"
    assert {*PREDICTIONS, *ours.split()} <= operations.keys()
    others = [name for name in operations if name not in (*PREDICTIONS, *ours.split())]
    assert all(name.startswith(PROTOCOLS) for name in others)


def test_what_is_described_is_an_operation_of_one_of_the_ports(document, operations):
    app = create_app(Settings(admin_port=0), {}, None)
    on_admin_port = create_admin(app, Settings(admin_port=0)).openapi()["paths"].values()
    administrative = {one["operationId"] for path in on_admin_port for one in path.values()}
    assert read_operations().keys() == operations.keys() | administrative


def test_every_reference_leads_somewhere_and_every_component_is_used(document):
    used = {tuple(one.removeprefix("#/components/").split("/")) for one in every(document, "$ref")}
    assert used == {(section, name) for section, ones in document["components"].items() for name in ones}


def test_components_have_plain_names_of_their_own(document):
    schemas = document["components"]["schemas"]
    assert not [name for name in schemas if not re.fullmatch("[A-Z][A-Za-z]+", name)]
    titles = [schema["title"] for schema in schemas.values() if "title" in schema]
    assert len(set(titles)) == len(titles)
    assert "service" not in json.dumps(list(schemas))


def test_problems_are_documented_under_their_own_type_alone(document, operations):
    for name in PREDICTIONS:
        refused = {status: one for status, one in operations[name]["responses"].items() if status != "200"}
        assert refused.keys() == set("400 401 403 404 406 408 413 415 422 429 500 503 504".split())
        assert {one["$ref"] for one in refused.values()} == {f"#/components/responses/Problem{one}" for one in refused}
    for name, response in document["components"]["responses"].items():
        kind = "application/problem+json" if name.startswith("Problem") else "application/json"
        assert response["content"].keys() == {kind}
    assert "HTTPValidationError" not in json.dumps(document)


def test_every_answer_in_json_has_a_type(operations):
    for name, operation in operations.items():
        found = operation["responses"].get("200", {}).get("content", {})
        assert all(one.get("schema") for one in found.values()), name
        assert "'type': 'object'" not in str(found), name


def test_options_have_no_defaults_that_a_generated_client_would_send(document):
    asked = [schema for name, schema in document["components"]["schemas"].items() if "Option" in name]
    assert not list(every([asked, document["paths"], document["components"]["parameters"]], "default"))
    schemas = document["components"]["schemas"]
    options = schemas["SimpleAttentionOptions"]["properties"] | schemas["AttentionOptions"]["allOf"][1]["properties"]
    assert options.keys() == AttentionOptions.model_fields.keys()
    assert options["digits"]["description"].endswith("(default: 5)")


def test_options_are_defined_once_and_one_value_each_in_a_query(document, operations):
    parameters = document["components"]["parameters"]
    for name in ("classify", "detect", "embed", "generate", "attention", "stored_attention", "inside"):
        assert not [one for one in operations[name]["parameters"] if "$ref" not in one and one["in"] == "query"]
    for name, parameter in parameters.items():
        kinds = set(every(parameter["schema"], "type"))
        assert not kinds & {"array", "object", "null"}, name
    assert len(json.dumps(document, separators=(",", ":"))) < 230_000


def test_objects_and_what_counts_as_found_are_described(document, operations):
    schemas, detect = document["components"]["schemas"], operations["detect"]
    assert schemas["Detected"]["required"] == ["label", "index", "probability", "object", "box"]
    assert schemas["ScoredObject"]["required"] == ["score", "label", "box"]
    assert schemas["PixelBox"]["properties"].keys() == {"xmin", "ymin", "xmax", "ymax"}
    asked = {one["$ref"].rpartition("/")[2] for one in detect["parameters"] if "$ref" in one}
    assert {"detect_threshold", "detect_top_k", "queries", "priority"} <= asked
    threshold = document["components"]["parameters"]["detect_threshold"]
    assert (threshold["name"], threshold["schema"]["minimum"], threshold["schema"]["maximum"]) == ("threshold", 0, 1)
    assert detect["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/DetectImages")
    form = schemas["DetectForm"]["allOf"][1]["properties"]
    assert form.keys() == {"threshold", "top_k"}
    assert {"threshold", "attention", "images"} <= schemas["DetectImages"]["properties"].keys()


def test_the_threshold_is_an_option_wherever_attention_to_objects_is_asked_for(document, operations):
    named = {
        name: {document["components"]["parameters"][one["$ref"].rpartition("/")[2]]["name"] for one in
               operations[name]["parameters"] if "$ref" in one}
        for name in ("attention", "stored_attention", "detect")
    }  # fmt: skip
    assert all("threshold" in names for names in named.values())
    assert "threshold" in document["components"]["schemas"]["AttendImages"]["allOf"][1]["properties"]


def test_options_that_several_requests_have_are_in_one_component(document, operations):
    schemas = document["components"]["schemas"]
    for name, base in (
        ("AttentionOptions", "SimpleAttentionOptions"),
        ("GenerateFromTexts", "GenerateOptions"),
        ("GenerationParameters", "GenerateOptions"),
        ("TranscribeSounds", "TranscribeOptions"),
        ("SpeechRecognitionParameters", "TranscribeOptions"),
    ):
        inherited, own = schemas[name]["allOf"]
        assert inherited == {"$ref": f"#/components/schemas/{base}"}
        assert not own["properties"].keys() & schemas[base]["properties"].keys()
        assert schemas[name]["unevaluatedProperties"] is False
        assert "additionalProperties" not in schemas[base]
    own = schemas["TranscribeSounds"]["allOf"][1]
    assert (own["properties"].keys(), own["required"]) == ({"audio", "attention"}, ["audio"])
    content = operations["transcribe"]["requestBody"]["content"]
    assert content.keys() == {"application/json", "multipart/form-data", "audio/wav", "application/octet-stream"}
    assert schemas["TranscribeForm"]["allOf"][1] == {"$ref": "#/components/schemas/TranscribeOptions"}
    asked = {one["$ref"].rpartition("/")[2] for one in operations["transcribe"]["parameters"]}
    assert {"path_model", "transcribe_language", "transcribe_stream", "layers", "priority"} <= asked


def test_a_port_documents_its_own_endpoints_alone():
    app = create_app(Settings(), {}, None)
    main, admin = app.openapi(), create_admin(app, Settings()).openapi()
    assert "Reload" not in main["components"]["schemas"]
    assert admin["paths"]["/admin/reload"]["post"]["operationId"] == "reload"
    assert {"Reload", "Reloaded"} <= admin["components"]["schemas"].keys()
    assert "Classified" not in admin["components"]["schemas"]
    assert app.openapi() is main


def test_the_document_is_made_once_and_others_are_answered_meanwhile(monkeypatch):
    """The first time it takes as long as hundreds of predictions."""
    calls, begun, go = [], threading.Event(), threading.Event()

    def slowly():
        calls.append(threading.get_ident())
        begun.set()
        assert go.wait(20)
        return read_operations()

    monkeypatch.setattr(app_module, "read_operations", slowly)
    app = create_app(Settings(), {}, None)
    app.state.regard = SimpleNamespace(draining=False)

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = [asyncio.create_task(client.get("/openapi.json")) for _ in range(2)]
            assert await asyncio.to_thread(begun.wait, 20)
            missing = await client.get("/nothing")
            go.set()
            return missing.status_code, [await one for one in first]

    status, answers = asyncio.run(ask())
    assert status == 404
    assert len(calls) == 1
    assert [one.headers["content-type"] for one in answers] == ["application/json"] * 2
    assert [one.json() for one in answers] == [app.openapi()] * 2
