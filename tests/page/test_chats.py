"""A chat on the page: turns are written and taken away, and what was looked at stands in the text of all of them."""

import json
import re

import numpy as np
import pytest
import regard

from tests.page.conftest import settled, state_of, violations
from tests.samples import chats
from tests.samples.in_process import in_process

MESSAGES = [
    {"role": "system", "content": "be old"},
    {"role": "user", "content": "good dog"},
    {"role": "assistant", "content": "ran"},
    {"role": "user", "content": "the cat 🙂 sat"},
]


@pytest.fixture(scope="module")
def service(needed):
    with in_process(chats.folder() / "artifacts") as client:
        yield client


def test_turns_are_written_and_asked_and_looked_at(service, visit):
    page = visit(height=1300).at(model="chat", method="raw")
    page.wait_for_selector("#text", timeout=20_000)
    page.locator("#as-chat").check()
    for at, message in enumerate([MESSAGES[0], {"role": "user", "content": "away"}, *MESSAGES[1:]]):
        if at:
            page.locator("#add-turn").click()
        page.locator(f"[name=role-{at}]").select_option(message["role"])
        page.locator(f"[name=turn-{at}]").fill(message["content"])
    page.get_by_label("Remove turn 2").click()
    page.locator("#ask").click()
    settled(page)
    assert json.loads(state_of(page)["chat"]) == MESSAGES
    body = {"messages": MESSAGES, "attention": {"method": "raw", "layers": [-1], "heads": "mean"}}
    (wanted,) = service.post("/v1/models/chat/generate", json=body).json()["results"]
    text = page.locator("#looks").inner_text()
    order = [text.index(message["content"]) for message in MESSAGES]
    assert order == sorted(order)
    begins = [0]
    for message in MESSAGES:
        begins.append(begins[-1] + len(message["content"]) + 1)
    tokens = wanted["attention"]["tokens"]
    first = next(at for at, one in enumerate(tokens["target"]) if one.get("message") == len(MESSAGES))
    page.locator("#answer button", has_text=wanted["tokens"][0]["text"].strip()).first.click()
    settled(page)
    (row,) = np.array(wanted["attention"]["maps"][0]["values"])[:, first]
    readout = page.locator("#look .readout").inner_text()
    assert "probability" in readout
    best = [tokens["target_input"][at] for at in np.argsort(-row, kind="stable")[:3]]
    placed = [one["span"][0] + begins[one["message"]] for one in best if one["span"]]
    assert re.findall(r"at character (\d+)", readout) == [str(place) for place in placed]
    assert placed, "of no message, it would show nothing"
    assert violations(page) == {}
    page.reload()
    settled(page)
    assert page.locator("#turns textarea").evaluate_all("(all) => all.map((one) => one.value)") == [
        one["content"] for one in MESSAGES
    ]
    code = page.locator("#code-Python")
    code.click()
    assert '"role": "system"' in page.locator("#request pre").inner_text()


def test_a_chat_is_shown_from_its_file(service, offline, tmp_path):
    with regard.connect(str(service.base_url)) as connected:
        connected["chat"].generate(MESSAGES, attention="raw").save(tmp_path / "chat.html")
    text = offline.begin(tmp_path / "chat.html").locator("#looks").first.inner_text()
    order = [text.index(message["content"]) for message in MESSAGES]
    assert order == sorted(order)
