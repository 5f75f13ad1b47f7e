"""What curl can send by the Open Inference Protocol."""

import json
import subprocess


def curl(service, path, *options):
    """Return the status, the headers and the body of an answer."""
    command = ["curl", "-s", "-S", "-i", "--max-time", "60", *options, f"{service.url}{path}"]
    answer = subprocess.run(command, capture_output=True, check=True).stdout
    while answer.startswith(b"HTTP/1.1 100"):
        answer = answer.partition(b"\r\n\r\n")[2]
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(first.split()[1]), headers, body


def a_picture_as_the_body(service):
    """A picture as the whole body: `--data-binary @FILE -H 'Inference-Header-Content-Length: 0'`."""
    status, headers, body = curl(
        service,
        f"/v2/models/{service.images}/infer",
        *("--data-binary", f"@{service.picture}", "-H", "Inference-Header-Content-Length: 0"),
    )
    assert status == 200, body
    size = int(headers["inference-header-content-length"])
    assert headers["content-type"] == "application/octet-stream"
    described = {output["name"]: output for output in json.loads(body[:size])["outputs"]}
    assert list(described) == ["probabilities", "label"]
    assert described["probabilities"]["shape"] == [1, 10]
    sizes = [output["parameters"]["binary_data_size"] for output in described.values()]
    assert sizes == [40, 5]
    assert len(body) == size + sum(sizes)
    assert body[-5:] == b"\1\0\0\0" + b"7"


def a_text_in_json(service):
    """A text in JSON: `-d '{"inputs": ...}'`."""
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["the twenty-third of March 2021"]}
    status, headers, body = curl(
        service, f"/v2/models/{service.seq2seq}/infer", "-d", json.dumps({"inputs": [tensor], "id": "a-7"})
    )
    assert status == 200, body
    answer = json.loads(body)
    assert headers["content-type"] == "application/json"
    assert "inference-header-content-length" not in headers
    assert answer["id"] == "a-7"
    assert answer["outputs"][0] == {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": ["2021-03-23"]}


def the_head_of_what_can_be_read(service):
    """`curl -I` of what can be read."""
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models", f"/v2/models/{service.images}"):
        status, headers, body = curl(service, path, "-I")
        assert (status, body) == (200, b""), path
        assert headers["content-type"] == "application/json"


def the_list_of_models(service):
    """The list of models, by which KServe's and Triton's clients know them."""
    status, _, body = curl(service, "/v2/models")
    assert status == 200
    assert {service.images, service.seq2seq} <= set(json.loads(body)["models"])


def a_model_that_is_unknown(service):
    """An unknown model is a 404 with the member `error`."""
    status, headers, body = curl(service, "/v2/models/none/infer", "-d", "{}")
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert list(json.loads(body)) == ["error"]
