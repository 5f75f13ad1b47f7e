"""The form of chats that is found in a template makes the texts of the reference library, which runs the template."""

import json
import time

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from contract.chat import ASSISTANT, SYSTEM, USER, Chat, Message, Turn
from export.checkpoints.reading import chat_template
from export.checkpoints.reading.chat_conversations import CONVERSATIONS, UNEVEN
from export.checkpoints.reading.chat_template import read_chat
from export.checkpoints.reading.checkpoint import Checkpoint
from tests.samples.chat_templates import CHATML, LLAMA_3, TEMPLATES

OTHERS = {
    "a poem": [(SYSTEM, "Rhyme,\nalways. "), (USER, "  Roses are red"), (ASSISTANT, "violets "), (USER, "blue\n")],
    "a sum": [(USER, "2 + 2?"), (ASSISTANT, " 4\n"), (USER, "\t3 + 3?"), (ASSISTANT, "\n\n6"), (USER, "<|im_end|>")],
    "a thought": [(USER, "x"), (ASSISTANT, "<think>\ny\n</think>\n\n z"), (USER, "[INST] </s>")],
}
"""Conversations that no form was held against when it was found."""


def folder(tmp_path, template, **tokens):
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
    return Checkpoint(tmp_path, {"model_type": "llama"}, {})


def reference(template, tokens, messages):
    """What the reference library makes of messages, on the day that a template falls back to."""
    given = [[message._asdict() for message in messages]]
    rendered, _ = render_jinja_template(
        given, chat_template=template, add_generation_prompt=True, date_string="26 Jul 2024", **tokens
    )
    return rendered[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_form_of_a_well_known_template_makes_the_texts_of_the_reference(tmp_path, name):
    template, tokens = TEMPLATES[name]
    form, said = read_chat(folder(tmp_path, template, **tokens))
    assert form, said
    compared = 0
    others = {name: [Message(*one) for one in messages] for name, messages in OTHERS.items()}
    for kind, messages in (CONVERSATIONS | others).items():
        if (form.system is None and messages[0].role == SYSTEM) or (form.alternates and kind in UNEVEN):
            continue
        wanted = reference(template, tokens, messages)
        assert form.text(messages) == wanted, kind
        for piece in form.pieces(messages):  # where a piece says that it begins, it does
            if piece.message is not None:
                assert messages[piece.message].content[piece.start :].startswith(piece.text)
        compared += 1
    assert compared >= 12


def test_what_is_known_of_forms():
    forms = {name: chat_template.derive(chat_template.render(*TEMPLATES[name]), TEMPLATES[name][1]) for name in (
        "chatml", "llama 3", "gemma 3", "mistral", "mistral, system first", "thinking", "phi 3, at first",
        "thinking, trimmed", "thinking, whole", "line breaks", "llama 2",
    )}  # fmt: skip
    assert forms["chatml"] == Chat(
        begins="",
        system=Turn(prefix="<|im_start|>system\n", suffix="<|im_end|>\n"),
        user=Turn(prefix="<|im_start|>user\n", suffix="<|im_end|>\n"),
        assistant=Turn(prefix="<|im_start|>assistant\n", suffix="<|im_end|>\n"),
        opens="<|im_start|>assistant\n",
        default_system="You are a helpful assistant.",
    )
    assert (forms["llama 3"].begins, forms["llama 3"].default_system) == ("<|begin_of_text|>", "")
    assert "26 Jul 2024" in forms["llama 3"].system.prefix
    assert all(
        turn.trims == "ends" for turn in (forms["llama 3"].system, forms["llama 3"].user, forms["llama 3"].assistant)
    )
    places = {name: (form.place, form.alternates) for name, form in forms.items()}
    assert places["gemma 3"] == places["mistral, system first"] == ("first", True)
    assert places["mistral"] == ("last", True)
    assert forms["mistral"].opens == ""
    assert forms["thinking"].thinks == "first breaks"
    assert forms["chatml"].thinks is None
    assert forms["thinking, trimmed"].thinks == "ends"
    assert forms["thinking, whole"].thinks == "nothing"
    assert forms["line breaks"].assistant.trims == "first breaks"
    assert forms["llama 2"].joined
    assert not forms["mistral, system first"].joined
    assert forms["phi 3, at first"].system is None


def test_a_date_is_the_templates_own_which_is_said(tmp_path):
    template, tokens = TEMPLATES["llama 3"]
    assert "of a date it says its own" in read_chat(folder(tmp_path, template, **tokens))[1]
    assert "date" not in read_chat(folder(tmp_path, CHATML))[1]
    demanding = LLAMA_3.replace("{%- if strftime_now is defined %}", "{%- if true %}")
    form, said = read_chat(folder(tmp_path, demanding, **tokens))
    assert form is None
    assert said == "its template cannot be rendered: UndefinedError: 'strftime_now' is undefined"


def test_a_template_may_be_a_file_or_one_of_several(tmp_path):
    checkpoint = folder(tmp_path, None)
    assert read_chat(checkpoint) == (None, "")
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    found, _ = read_chat(checkpoint)
    assert found
    (tmp_path / "chat_template.jinja").unlink()
    both = [{"name": "tool_use", "template": "{{ x }}"}, {"name": "default", "template": CHATML}]
    assert read_chat(folder(tmp_path, both))[0] == found
    assert read_chat(folder(tmp_path, both[:1])) == (None, "")


TURN = "{{ message.role }}: {{ message.content }}\n"
LOOP = "{% for message in messages %}" + TURN + "{% endfor %}"
REFUSED = {
    "{% for": "its template cannot be rendered: TemplateSyntaxError: ",
    "": "its template does not write each message once, in their order",
    LOOP + LOOP: "its template does not write each message once, in their order",
    LOOP + "{{ raise_exception('never') }}": "its template cannot be rendered: TemplateError: never",
    LOOP.replace("message.content", "message.content | upper"): "its template does not write each message once",
    LOOP.replace(TURN, "{{ loop.index }} " + TURN): "strings by role do not make the texts of its",
    LOOP + "{{ messages | length }}": "strings by role do not make the texts of its template, such as of ",
    LOOP.replace("message.content", "message.content | replace('{', '(')"): "such as of odd characters",
    LOOP.replace("message.content", "message.content[:1000]"): "such as of long",
    LOOP.replace(
        "message.content", "message.content | replace('/no_think', '')"
    ): "such as of marks that some templates",
    LOOP + "{{ 'a' * 2000000 }}": "at most 1048576 characters",
    LOOP + "{{ ('a' * 1200000000) | length }}": "its template cannot be rendered: MemoryError",
    LOOP + "{{ ''.__class__.__mro__ }}": "SecurityError: access to attribute '__class__' of 'str' object is unsafe",
    LOOP + "{% include 'config.json' %}": "TypeError: no loader for this environment specified",
    "{" * (1 << 19): "its template must be a text of at most 262144 characters",
}


@pytest.mark.parametrize(("template", "words"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_template_without_such_a_form_is_left_out_with_the_reason(tmp_path, template, words):
    form, said = read_chat(folder(tmp_path, template))
    assert form is None
    assert words in said


@pytest.mark.parametrize(
    "endless",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set x = namespace(a='a') %}{% for a in range(60) %}{% set x.a = x.a + x.a %}{% endfor %}",
    ],
)
def test_a_template_without_end_is_left_out(tmp_path, endless):
    begun = time.monotonic()
    form, said = read_chat(folder(tmp_path, LOOP + endless))
    assert form is None
    assert "takes too long or too much memory" in said or "MemoryError" in said
    assert time.monotonic() - begun < 2 * chat_template.MOST_SECONDS


def test_a_checkpoint_that_is_no_such_thing_says_so(tmp_path):
    assert read_chat(folder(tmp_path, 3))[1] == "its template must be a text of at most 262144 characters"
    (tmp_path / "chat_template.jinja").write_bytes(b"{" * (1 << 19))
    found = read_chat(folder(tmp_path, CHATML))[1]
    assert found == "chat_template.jinja: at most 262144 bytes, given 524288"


def test_a_form_survives_a_manifest():
    form = chat_template.derive(chat_template.render(*TEMPLATES["gemma 3"]), TEMPLATES["gemma 3"][1])
    assert Chat.model_validate_json(form.model_dump_json()) == form
