"""A small decoder whose checkpoint has a template of chats, ChatML, and what the reference library answers with it."""

import functools
import json
import shutil
import warnings

import torch
import transformers
from tokenizers import AddedToken

from tests.samples.chat_templates import CHATML
from tests.samples.checkpoints import byte_pairs, sharpened
from tests.samples.exports import export, once

POSITIONS, SEED = 160, 24
START, END = "<|im_start|>", "<|im_end|>"
ENDS = [2, 11]
"""Further tokens that end an answer: one of them is often written."""
TEMPLATE = CHATML.replace("You are a helpful assistant.", "good")


def save(folder):
    """Write the checkpoint."""
    tokenizer = byte_pairs(320)
    tokenizer.add_special_tokens([AddedToken(one, normalized=False) for one in (START, END)])
    end = tokenizer.token_to_id(END)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_embd=32, n_layer=2, n_head=2, n_positions=POSITIONS,
        tie_word_embeddings=False, bos_token_id=2, eos_token_id=end,
    )  # fmt: skip
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sharpened(transformers.GPT2LMHeadModel(config), SEED).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [end, *ENDS], "max_new_tokens": 12}))


def make(folder):
    """Write the checkpoint, and export it; another artifact has no template, and another one's has no form."""
    checkpoint, artifacts = folder / "checkpoint", folder / "artifacts"
    checkpoint.mkdir()
    save(checkpoint)
    export("--name", "chat", "--methods", "raw,rollout,relevance,libra", checkpoint)(artifacts)
    for name, told in {"plain": {}, "odd": {"no_chat": "strings by role do not make its texts"}}.items():
        shutil.copytree(artifacts / "chat", artifacts / name)
        file = artifacts / name / "1/manifest.json"
        manifest = json.loads(file.read_text()) | {"name": name}
        del manifest["inputs"][0]["chat"]
        manifest["inputs"][0] |= told
        file.write_text(json.dumps(manifest))


def folder():
    """Return a folder with the `checkpoint` and `artifacts`."""
    return once("chats", make, "tests/samples/chat_templates.py", "tests/samples/checkpoints.py")


@functools.cache
def reference():
    """Return the reference library's model, in float64, and its tokenizer."""
    found = folder() / "checkpoint"
    model = transformers.GPT2LMHeadModel.from_pretrained(found, dtype=torch.float64, attn_implementation="eager")
    return model.eval(), transformers.AutoTokenizer.from_pretrained(found)


@torch.no_grad()
def theirs(messages, most=12, **asked):
    """Return the tokens of a conversation's prompt, and those that the reference answers it with, greedily."""
    model, tokenizer = reference()
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    given = torch.tensor([prompt])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=most, pad_token_id=1, **asked
        )
    return prompt, found[0, len(prompt) :].tolist()
