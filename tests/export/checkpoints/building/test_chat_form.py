"""A source takes messages where its checkpoint has a template whose form is found; else it says why not, if it has."""

import dataclasses

import pytest

from export.checkpoints.building.chat_form import with_chat
from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families.gpt2 import GPT2
from export.checkpoints.reading.checkpoint import open_checkpoint
from tests.samples.chats import TEMPLATE, save


@pytest.fixture
def checkpoint(tmp_path):
    save(tmp_path)
    return open_checkpoint(str(tmp_path), None)


def told(checkpoint, **changes):
    said = []
    source = dataclasses.replace(GPT2.source(checkpoint, ExportOptions("small")), **changes)
    return with_chat(source, checkpoint, said.append).text, said


def test_a_decoder_with_a_template_takes_messages(checkpoint):
    rule, said = told(checkpoint)
    assert rule.chat.default_system == "good"
    assert rule.no_chat is None
    assert said == ["  chat      22 conversations are as by the checkpoint's template"]


def test_one_whose_template_has_no_such_form_says_why(checkpoint):
    (checkpoint.folder / "chat_template.jinja").write_text("{{ messages[0].role }}")
    rule, said = told(checkpoint)
    assert rule.chat is None
    assert rule.no_chat == "its template does not write each message once, in their order"
    assert said == [f"  chat      LEFT OUT: {rule.no_chat}"]


def test_nothing_is_said_without_a_template_and_of_other_tasks(checkpoint):
    rule, said = told(checkpoint, task="text2text-generation")
    assert (rule.chat, rule.no_chat, said) == (None, None, [])
    assert (checkpoint.folder / "chat_template.jinja").read_text() == TEMPLATE
    (checkpoint.folder / "chat_template.jinja").unlink()
    rule, said = told(checkpoint)
    assert (rule.chat, rule.no_chat, said) == (None, None, [])


def test_a_manifest_without_a_chat_says_nothing_of_it(checkpoint):
    (checkpoint.folder / "chat_template.jinja").unlink()
    assert not {"chat", "no_chat"} & told(checkpoint)[0].model_dump().keys()
