"""How a folder says by which tokens a decoder ranks, and what is refused of it."""

import dataclasses
import json

import pytest
from tokenizers import Tokenizer, models

from export.checkpoints.reading.checkpoint import Checkpoint
from export.checkpoints.reading.pair_template import PUBLISHED
from export.checkpoints.reading.ranking import Ranking, ranks_by_words, read_ranking
from export.errors import CheckpointError
from tests.samples.rankers import INSTRUCTION, PREFIX, SUFFIX, TEMPLATE

MODULES = [
    {"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""},
    {"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1_LogitScore"},
]
MESSAGES = {"text": {"method": "forward"}, "message": {"method": "forward", "format": "flat"}}
FILES = {
    "modules.json": MODULES,
    "1_LogitScore/config.json": {"true_token_id": 5, "false_token_id": 3, "module_input_name": "causal_logits"},
    "sentence_bert_config.json": {"transformer_task": "text-generation", "modality_config": MESSAGES},
    "config_sentence_transformers.json": {
        "model_type": "CrossEncoder",
        "prompts": {"web": INSTRUCTION, "own": "Find it"},
        "default_prompt_name": "web",
    },
    "tokenizer_config.json": {"chat_template": TEMPLATE},
}


def words(*names):
    return Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token=names[0]))


def folder(tmp_path, **changes):
    (tmp_path / "1_LogitScore").mkdir(exist_ok=True)
    for name, content in {**FILES, **changes}.items():
        (tmp_path / name).write_text(json.dumps(content))
    return Checkpoint(tmp_path, {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, {})


def test_modules_name_the_tokens_and_the_template_the_form(tmp_path):
    checkpoint = folder(tmp_path)
    assert ranks_by_words(checkpoint)
    assert read_ranking(checkpoint, words("a"), 9) == Ranking(PUBLISHED, 5, 3)
    one = {"1_LogitScore/config.json": {"true_token_id": 5}, "sentence_bert_config.json": {
        **FILES["sentence_bert_config.json"], "max_seq_length": 12}}  # fmt: skip
    told = {"config_sentence_transformers.json": {"prompts": {"own": "Find it"}, "default_prompt_name": "own"}}
    found = read_ranking(folder(tmp_path, **one, **told), words("a"), 9)
    assert (found.true, found.false, found.max_tokens) == (5, None, 12)
    assert found.form.begins == PREFIX + "<Instruct>: Find it\n<Query>: "


def test_a_causal_model_without_modules_ranks_as_the_published_ones(tmp_path):
    checkpoint = Checkpoint(tmp_path, {"architectures": ["Qwen3ForCausalLM"]}, {})
    assert ranks_by_words(checkpoint)
    assert not ranks_by_words(dataclasses.replace(checkpoint, tensors={"score.weight": tmp_path}))
    assert not ranks_by_words(Checkpoint(tmp_path, {"architectures": ["Qwen3ForSequenceClassification"]}, {}))
    known = ["?", "no", "yes", "<|im_start|>", "<|im_end|>"]
    assert read_ranking(checkpoint, words(*known), 5) == Ranking(PUBLISHED, 2, 1)
    query, document = "a query?", "a document"
    wanted = f"{PREFIX}<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}{SUFFIX}"
    assert PUBLISHED.text(query, document) == wanted
    with pytest.raises(CheckpointError, match=r"tokenizer.json: must hold <\|im_end\|>, to rank as"):
        read_ranking(checkpoint, words(*known[:-1]), 5)


def test_words_that_are_no_single_tokens_are_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path, {"architectures": ["Qwen3ForCausalLM"]}, {})
    letters = Tokenizer(models.BPE({letter: index for index, letter in enumerate("nosey")}, []))
    letters.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    with pytest.raises(CheckpointError, match=r"tokenizer.json: must have 'yes' as one token, to rank by it, given 3"):
        read_ranking(checkpoint, letters, 9)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("1_LogitScore/config.json", {"true_token_id": 9}, "tokens must be numbers below 9, given '9'"),
        ("1_LogitScore/config.json", {"true_token_id": "yes"}, "tokens must be numbers below 9, given 'yes'"),
        ("1_LogitScore/config.json", {"true_token_id": 1, "scale": 2}, "true_token_id and false_token_id alone"),
        ("1_LogitScore/config.json", {"true_token_id": 1, "module_input_name": "x"}, "alone, of causal_logits"),
        ("modules.json", [*MODULES, MODULES[1]], "must be a Transformer for text-generation and LogitScore, given"),
        ("sentence_bert_config.json", {"modality_config": MESSAGES}, "LogitScore for None|, LogitScore for"),
        ("sentence_bert_config.json", {"transformer_task": "text-generation"}, "must put texts into messages"),
        ("tokenizer_config.json", {}, "chat_template: must write a query and a document in their order: there is none"),
        ("tokenizer_config.json", {"chat_template": "{{ messages[1].content }}"}, "must write a query and a document"),
        (
            "tokenizer_config.json",
            {"chat_template": "{% for one in messages %}<{{ one.content | trim }}>{% endfor %}"},
            "strings around them do not make its text of the pair of white space",
        ),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, file, content, said):
    with pytest.raises(CheckpointError, match=said):
        read_ranking(folder(tmp_path, **{file: content}), words("a"), 9)
