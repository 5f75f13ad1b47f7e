"""Answers are found as `transformers` found them, and each of their ends is explained."""
# ruff: noqa: E501, RUF001 # the texts hold what people write

import json
import random
import shutil

import numpy as np
import pytest

from tests.samples.checkpoints import reference
from tests.samples.in_process import in_process

NAMES = ("bert-answer", "roberta-answer")
FURTHER = ("distilbert-answer", "xlm-roberta-answer", "camembert-answer", "mpnet-answer")
EVERY = [*NAMES, *(pytest.param(name, marks=pytest.mark.slow) for name in FURTHER)]
QUESTION = "the old cat"
CONTEXT = "the cat sat on a mat and ran to the new house "
LONG = CONTEXT * 9
ODD = (
    "the cat sat on the mat", "猫がマットの上に座っています。", "Съешь ещё этих мягких французских булок.",
    "مرحبا بالعالم", "한국어 문장", "Ω≈ç√∫˜µ≤≥÷", "naïve café déjà vu", "👩‍👩‍👧‍👦 family 🇫🇷", "def f(x): return x ** 2", "e\u0301 and é",
    "ﬁ ½ ² ™", "[MASK] [CLS] </s> <s>", "https://example.org/a?b=c#f", "IN CAPITALS", "a" * 90, "don't can't",
    "ไทย ภาษา", "हिन्दी पाठ", "ελληνικά", "עברית", LONG, "a\tb\nc",
)  # fmt: skip


def fifty():
    draw = random.Random(5)
    words = " ".join(ODD).split()
    contexts = [*ODD, *(" ".join(draw.choices(words, k=draw.randint(1, 60))) for _ in range(28))]
    return [(" ".join(draw.choices(("the", "cat", "ran", "猫"), k=draw.randint(0, 2))), one) for one in contexts]


@pytest.fixture(scope="module")
def served(families, tmp_path_factory):
    """What serves a case, and what it is held against: the reference's model and tokenizer."""
    opened = []

    def serve(name):
        folder = tmp_path_factory.mktemp("answers")
        (folder / name).symlink_to(families(name))
        for other in ("bert", "bert-rank"):
            (folder / other).symlink_to(families(other))
        opened.append(in_process(folder))
        return opened[-1].__enter__()

    clients = {}
    yield lambda name: clients.get(name) or clients.setdefault(name, serve(name))
    for service in opened:
        service.__exit__(None, None, None)


@pytest.fixture(scope="module")
def client(served):
    return served("bert-answer")


@pytest.fixture(scope="module")
def reference_of(checkpoints, served, tmp_path_factory):
    """What runs a checkpoint, in float64, on the windows of a question and a context that its tokenizer cuts."""
    import torch
    from transformers import PreTrainedTokenizerFast

    from tests.samples.reference_texts import tokenizer_of

    def load(name):
        folder = tmp_path_factory.mktemp("reference") / name
        shutil.copytree(checkpoints(name), folder)
        model = reference(folder)
        most = served(name).get(f"/v1/models/{name}").json()["inputs"]["max_tokens"]
        typed = ["token_type_ids"] if name == "bert-answer" else []
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer_of(name), model_input_names=["input_ids", "attention_mask", *typed]
        )

        def windows(question, context, stride=None, size=most):
            room = size - len(tokenizer([question], [""])["input_ids"][0])
            given = tokenizer(
                [question], [context], truncation="only_second", max_length=size, return_overflowing_tokens=True,
                stride=min(128, room // 2) if stride is None else stride,
            )  # fmt: skip
            found = []
            for encoding in given.encodings:
                fed = {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask}
                fed |= {"token_type_ids": encoding.type_ids} if typed else {}
                with torch.no_grad():
                    out = model(**{key: torch.tensor([one]) for key, one in fed.items()})
                found.append((encoding, out.start_logits[0].numpy(), out.end_logits[0].numpy()))
            return found

        return windows

    loaded = {}
    return lambda name: loaded.get(name) or loaded.setdefault(name, load(name))


def chances_of(logits, among):
    weights = np.where(among, np.exp(logits - logits[among].max()), 0)
    return weights / weights.sum()


def wanted_of(windows, most_tokens=15, *, words=False):
    """The best score of each span of characters, by the definition; and the least score of no answer."""
    found, null = {}, np.inf
    for encoding, starts, ends in windows:
        inside = np.array([one == 1 for one in encoding.sequence_ids])
        among = inside.copy()
        among[0] = True
        start, end = chances_of(starts, among), chances_of(ends, among)
        null = min(null, start[0] * end[0])
        for first in np.flatnonzero(inside):
            for last in range(first, min(first + most_tokens, len(inside))):
                if not inside[last]:
                    continue
                span = encoding.offsets[first][0], encoding.offsets[last][1]
                if words:
                    span = (
                        encoding.word_to_chars(encoding.token_to_word(first), 1)[0],
                        encoding.word_to_chars(encoding.token_to_word(last), 1)[1],
                    )
                found[span] = max(found.get(span, 0), start[first] * end[last])
    return found, null


def post(client, path, body, status=200):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def answers(client, name, question, context, **options):
    body = {"inputs": {"question": question, "context": context}, **options}
    answer = post(client, f"/v1/models/{name}/answer", body)
    (result,) = answer["results"]
    return {**result, "id": answer["id"]}


def check_answers(found, context, wanted, count):
    """Hold answers against the score of every span: they are the best, in order, and each has the score of its own."""
    scores = sorted(wanted.values(), reverse=True)[:count]
    assert [one["score"] for one in found] == pytest.approx(scores, rel=2e-4)
    for answer in found:
        span = answer["start"], answer["end"]
        assert answer["text"] == context[slice(*span)]
        assert answer["score"] == pytest.approx(wanted[span], rel=2e-4)
    assert len({(one["start"], one["end"]) for one in found}) == len(found)


@pytest.mark.parametrize("name", EVERY)
def test_fifty_questions_are_answered_as_by_the_reference_library(served, reference_of, name):
    asked, client, windows_of = fifty(), served(name), reference_of(name)
    assert len(asked) == 50
    body = {"inputs": [dict(zip(("question", "context"), one, strict=True)) for one in asked]}
    results = post(client, f"/v1/models/{name}/answer", {**body, "top_k": 9, "impossible": True, "most_tokens": 7})
    several = 0
    for (question, context), one in zip(asked, results["results"], strict=True):
        windows = windows_of(question, context)
        several += len(windows) > 1
        wanted, null = wanted_of(windows, 7)
        check_answers(one["answers"], context, {**wanted, (0, 0): max(null, wanted.get((0, 0), 0))}, 9)
    assert several > 9
    assert any(one["text"] == "" for result in results["results"] for one in result["answers"])


@pytest.mark.parametrize("stride", [0, 3, 20])
def test_a_long_context_is_read_in_windows_with_the_stride_that_is_asked_for(client, reference_of, stride):
    windows = reference_of("bert-answer")(QUESTION, LONG, stride)
    found = answers(client, "bert-answer", QUESTION, LONG, stride=stride, top_k=40)["answers"]
    check_answers(found, LONG, wanted_of(windows)[0], 40)
    assert len(windows) > 3
    assert found[-1]["score"] < found[0]["score"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("more", [{}, {"doc_stride": 5, "max_answer_len": 3, "max_seq_len": 30, "top_k": 6}])
def test_hugging_face_s_clients_are_answered_in_whole_words(served, reference_of, name, more):
    windows_of = reference_of(name)
    most = len(windows_of(QUESTION, LONG)[0][0].ids)
    size = more.get("max_seq_len", most)
    windows = windows_of(QUESTION, LONG, more.get("doc_stride", size // 2), size)
    for words in (True, False):
        parameters = {**more, **({} if words else {"align_to_words": False})}
        given = {"question": QUESTION, "context": LONG}
        found = post(served(name), f"/v1/models/{name}", {"inputs": given, "parameters": parameters})
        listed = found if isinstance(found, list) else [found]
        assert isinstance(found, list) == (more != {})
        wanted, _ = wanted_of(windows, more.get("max_answer_len", 15), words=words)
        check_answers([{**one, "text": one["answer"]} for one in listed], LONG, wanted, more.get("top_k", 1))


@pytest.mark.parametrize("name", NAMES)
def test_each_end_is_explained_at_its_token_in_the_window_of_its_answer(served, reference_of, name):
    client, logits = served(name), reference_of(name)(QUESTION, LONG, 3)
    asked = {"method": "libra", "digits": 7}
    one = answers(client, name, QUESTION, LONG, stride=3, top_k=3, attention=asked)
    maps = one["attention"]["maps"]
    assert [(found["target"]["answer"], found["target"]["part"]) for found in maps] == [(0, "start"), (0, "end")]
    tokens = one["attention"]["tokens"]["source"]
    number = next(
        place for place, (encoding, *_) in enumerate(logits)
        if [span for span, text in zip(encoding.offsets, encoding.sequence_ids, strict=True) if text == 1]
        == [tuple(token["span"]) for token in tokens if token.get("sequence") == 1]
    )  # fmt: skip
    answer = one["answers"][0]
    for end, found in enumerate(maps):
        place = found["target"]["position"]
        assert tokens[place]["span"][end] == (answer["start"], answer["end"])[end]
        np.testing.assert_allclose(found["conserved"]["score"], logits[number][1 + end][place], atol=2e-5)
        np.testing.assert_allclose(
            np.sum(found["values"]) + found["conserved"]["biases"], found["conserved"]["score"], atol=1e-3
        )
    check_the_same(client, name, one, asked)


def check_the_same(client, name, one, asked):
    """Hold what is explained later, or alone, or of one end, against what came with the answer."""
    maps = one["attention"]["maps"]
    given = {"question": QUESTION, "context": LONG}
    answer = post(client, f"/v1/models/{name}/attention", {"inputs": given, "stride": 3, "attention": asked})
    again = client.get(f"/v1/attention/{answer['id']}", params=asked).json()
    for other in (answer, again, client.get(f"/v1/attention/{one['id']}", params=asked).json()):
        (result,) = other["results"]
        assert result.keys() == {"attention"}
        assert result["attention"]["tokens"] == one["attention"]["tokens"]
        for found, wanted in zip(result["attention"]["maps"], maps, strict=True):
            np.testing.assert_allclose(found["values"], wanted["values"], atol=1e-6)
    params = {**asked, "target": json.dumps({"answer": 0, "part": "end"})}
    (end,) = client.get(f"/v1/attention/{answer['id']}", params=params).json()["results"][0]["attention"]["maps"]
    np.testing.assert_allclose(end["values"], maps[1]["values"], atol=1e-6)
    picture = client.get(f"/v1/attention/{answer['id']}", params={"method": "libra", "format": "png"})
    assert (picture.status_code, picture.content[:4]) == (200, b"\x89PNG")
    assert client.get(f"/v1/attention/{answer['id']}/input").status_code == 422


@pytest.mark.parametrize("method", ["relevance", "libra", "integrated"])
def test_another_answer_and_none_at_all_are_explained(client, reference_of, method):
    for number, given in ((2, {"top_k": 3}), (2, {}), (0, {"impossible": True})):
        context = CONTEXT if number else ODD[1]
        asked = {"method": method, "target": {"answer": number, "part": "start"}}
        listed = answers(client, "bert-answer", QUESTION, context, **given, top_k=9)["answers"] if not given else None
        one = answers(client, "bert-answer", QUESTION, context, **given, attention=asked)
        (found,) = one["attention"]["maps"]
        target = found["target"]
        assert (target["answer"], target["part"]) == (number, "start")
        tokens = one["attention"]["tokens"]["source"]
        answer = (listed or one["answers"])[number]
        assert (tokens[target["position"]]["span"] or [0])[0] == answer["start"]
        if method != "relevance":
            ((_, starts, _),) = reference_of("bert-answer")(QUESTION, context)
            score = (found.get("conserved") or found["completeness"])["score"]
            np.testing.assert_allclose(score, starts[target["position"]], atol=2e-5)


def test_an_end_is_evaluated_by_its_probability(client, reference_of):
    asked = {"method": "libra", "target": {"answer": 0, "part": "end"}, "evaluate": ["deletion"]}
    one = answers(client, "bert-answer", QUESTION, CONTEXT, attention=asked)["attention"]
    ((encoding, _, ends),) = reference_of("bert-answer")(QUESTION, CONTEXT)
    among = np.array([place == 0 or text == 1 for place, text in enumerate(encoding.sequence_ids)])
    (target,) = {json.dumps(found["target"]): found["target"] for found in one["maps"]}.values()
    evaluation = one["evaluation"]
    assert (evaluation["answer"], evaluation["part"]) == (0, "end")
    whole = evaluation["curves"][0]["probabilities"][0]
    np.testing.assert_allclose(whole, chances_of(ends, among)[target["position"]], atol=1e-5)
    compared = {**asked, "evaluate": ["compare"]}
    found = answers(client, "bert-answer", QUESTION, CONTEXT, attention=compared)["attention"]["evaluation"]
    assert {"libra", "rollout", "random"} < {curves["method"] for curves in found["compare"]}


def test_tensors_hold_the_answers_of_each_question(client):
    texts = [("text", [QUESTION, "a"]), ("text_pair", [LONG, CONTEXT])]
    inputs = [{"name": name, "datatype": "BYTES", "shape": [2], "data": data} for name, data in texts]
    body = {"inputs": inputs, "parameters": {"top_k": 2, "stride": 4}}
    (output,) = post(client, "/v2/models/bert-answer/infer", body)["outputs"]
    assert (output["name"], output["shape"]) == ("answers", [2, 1])
    for text, question, context in zip(output["data"], *(data for _, data in texts), strict=True):
        wanted = answers(client, "bert-answer", question, context, top_k=2, stride=4)["answers"]
        found = json.loads(text)
        assert [one.pop("score") for one in found] == pytest.approx([one.pop("score") for one in wanted], rel=1e-4)
        assert found == wanted
    wanted = [{"name": "attention"}]
    body = {"inputs": inputs, "outputs": wanted, "parameters": {"method": "libra", "stride": 4}}
    (attention,) = post(client, "/v2/models/bert-answer/infer", body)["outputs"]
    assert attention["shape"] == [2, 1]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"inputs": "a"}, 422, 'inputs: must be {"question": ..., "context": ...}, both strings, or a list of them'),
        ({"inputs": []}, 422, "inputs: must be 1 to "),
        ({"inputs": {"question": "a"}}, 422, "inputs: must be {"),
        ({"inputs": {"question": "a", "context": ["b"]}}, 422, "inputs: must be {"),
        ({"inputs": {"text": "a", "context": "b"}}, 422, "inputs: must be {"),
        ({}, 422, "inputs: must be {"),
        ({"inputs": {"question": "a", "context": " "}}, 422, "context: must hold at least one token, given none"),
        (
            {"inputs": {"question": LONG, "context": "a"}},
            422,
            "input: the first text must leave room for the second in",
        ),
        ({"stride": 40}, 422, "stride: must be less than the 3"),
        ({"top_k": 101}, 422, "top_k: Input should be less than or equal to 100, given 101"),
        ({"most_tokens": 0}, 422, "most_tokens: Input should be greater than or equal to 1, given 0"),
        ({"truncate": True}, 422, "options: unknown option"),
        (
            {"attention": {"method": "libra", "target": {"answer": 0, "part": "middle"}}},
            422,
            "attention.target: must be",
        ),
        ({"attention": {"method": "libra", "target": [0, 1]}}, 422, "target: must be one answer, such as 0 or"),
        ({"attention": {"method": "libra", "target": "start"}}, 422, "target: must be one answer, such as 0 or"),
        ({"attention": {"method": "libra", "target": 100}}, 422, "target: must be one answer, such as 0 or"),
        ({"attention": {"method": "raw", "target": 0}}, 422, "target: is for relevance"),
        (
            {"attention": {"method": "libra", "against": {"text": "b"}}},
            422,
            "against: an end of an answer is explained",
        ),
        ({"attention": {"method": "libra", "evaluate": ["deletion"]}}, 422, "evaluate: needs one map of one row"),
        ({"attention": {"format": "png"}}, 422, "format: a prediction is answered in json"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(client, body, status, said):
    body = {"inputs": {"question": QUESTION, "context": LONG}, **body} if body else body
    answer = client.post("/v1/models/bert-answer/answer", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(said.removeprefix("attention."))


def test_an_answer_that_is_not_found_is_not_explained(client):
    asked = {"method": "libra", "target": {"answer": 3}}
    body = {"inputs": {"question": QUESTION, "context": "a"}, "attention": asked}
    said = post(client, "/v1/models/bert-answer/answer", body, 422)["detail"]
    assert said == "target: must be an answer that is found, of which there are 1, given another"
    body = {"inputs": {"text": "a", "text_pair": "b"}, "attention": {"method": "libra", "target": {"answer": 0}}}
    said = post(client, "/v1/models/bert/classify", body, 422)["detail"]
    assert said.startswith("target: an answer is of question-answering, this model's task is text-classification")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"max_question_len": 9}, "max_question_len: must be 64; a question is never cut off"),
        ({"padding": "longest"}, "padding: is not served; "),
        ({"max_seq_len": 4}, "max_seq_len: Input should be greater than or equal to 8, given 4"),
        (
            {"most_tokens": 4},
            "parameters: this model's task is question-answering, whose parameters are align_to_words",
        ),
    ],
)
def test_parameters_that_are_not_honoured_are_refused_by_name(client, parameters, said):
    body = {"inputs": {"question": QUESTION, "context": CONTEXT}, "parameters": parameters}
    assert post(client, "/v1/models/bert-answer", body, 422)["error"].startswith(said)


def test_a_pair_is_a_question_with_its_context_too(client):
    found = post(client, "/v1/models/bert-answer/answer", {"inputs": {"text": QUESTION, "text_pair": CONTEXT}})
    assert found["results"][0]["answers"] == answers(client, "bert-answer", QUESTION, CONTEXT)["answers"]


def test_a_question_without_a_context_is_no_input(client):
    inputs = [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]
    said = post(client, "/v2/models/bert-answer/infer", {"inputs": inputs}, 400)["error"]
    assert said == "text_pair: must be given, the context of each question"
    said = post(client, "/v1/models/bert-rank/answer", {"inputs": {"question": "a", "context": "b"}}, 404)["detail"]
    assert said.startswith("answer: this model's task is text-classification; it serves classify, rerank, attention")


def test_answers_that_are_too_large_together_are_refused(families, tmp_path):
    (tmp_path / "bert-answer").symlink_to(families("bert-answer"))
    body = {"inputs": {"question": QUESTION, "context": LONG}, "top_k": 100}
    with in_process(tmp_path, max_answer_bytes=4000) as client:
        answer = client.post("/v1/models/bert-answer/answer", json=body)
    assert answer.status_code == 413
    assert answer.json()["detail"].startswith("answers: at most 4000 bytes, these would have ")
