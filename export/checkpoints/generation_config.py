"""`generation_config.json` as the rules by which the service generates."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from contract.manifest import Generation, Sampling
from export.checkpoints.checkpoint import CONFIG, Checkpoint
from export.checkpoints.family import GENERATION_KEYS
from export.errors import CheckpointError

FILE = "generation_config.json"

OFF: Mapping[str, tuple[Any, ...]] = {
    "diversity_penalty": (0.0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "constraints": (),
    "dola_layers": (),
    "guidance_scale": (1.0,),
    "max_time": (),
    "min_p": (0.0,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0.0,),
    "prompt_lookup_num_tokens": (),
    "remove_invalid_values": (False,),
    "repetition_penalty": (1.0,),
    "sequence_bias": (),
    "stop_strings": (),
    "token_healing": (False,),
    "top_h": (),
    "typical_p": (1.0,),
    "watermarking_config": (),
}
"""What is not supported, and the values besides null by which it is off."""

HONOURED = frozenset(
    """
    bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id do_sample early_stopping eos_token_id
    forced_bos_token_id forced_eos_token_id length_penalty max_length max_new_tokens min_length min_new_tokens
    no_repeat_ngram_size num_beams pad_token_id renormalize_logits suppress_tokens temperature top_k top_p
    """.split()
)
NO_MATTER = frozenset(
    """
    _from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind cache_config
    cache_implementation compile_config disable_compile is_assistant max_matching_ngram_size
    num_assistant_tokens num_assistant_tokens_schedule output_attentions output_hidden_states output_logits
    output_scores prefill_chunk_size return_dict_in_generate return_legacy_cache target_lookbehind transformers_version
    use_cache use_model_defaults low_memory continuous_batching_config
    """.split()
)
"""Of memory, speed and what is returned."""

DEFAULT_NEW_TOKENS = 64
"""Of a model that continues texts, where nothing is said: enough for a few sentences."""


def generation(
    checkpoint: Checkpoint, *, continues: bool, vocabulary: int, room: int, ignored: tuple[str, ...]
) -> Generation:
    """Read the rules of generation; caches and memory are the exporter's to add.

    `continues` says that targets continue their source (a decoder alone) rather than begin with a start token;
    `room` is the most tokens that the decoder has positions for. Raises CheckpointError naming what is not supported.
    """
    file, given = FILE, checkpoint.json(FILE)
    if not given:  # older checkpoints
        file, given = CONFIG, {key: value for key, value in checkpoint.config.items() if key in GENERATION_KEYS}
    given = {key: value for key, value in given.items() if value is not None and key not in (*ignored, *NO_MATTER)}
    for key, value in given.items():
        if key in OFF and value not in OFF[key]:
            raise CheckpointError(
                f"{file}: {key} is not supported, given {str(value)[:64]}; to do without it, add: --ignore {key}"
            )
        if key not in OFF and key not in HONOURED:
            raise CheckpointError(f"{file}: {key} is not known; if it changes nothing, add: --ignore {key}")
    given = {**{key: checkpoint.config[key] for key in TOKENS if checkpoint.config.get(key) is not None}, **given}
    if continues and "forced_bos_token_id" in given:
        raise CheckpointError(
            f"{file}: forced_bos_token_id is for encoder-decoders; to do without it, add: --ignore forced_bos_token_id"
        )
    start = None if continues else _token(file, given, "decoder_start_token_id", "bos_token_id")
    end = _token(file, given, "eos_token_id")
    default, length = given.get("max_new_tokens"), given.get("max_length")
    if continues and default is None and length is None:
        default = DEFAULT_NEW_TOKENS
    least = given.get("min_new_tokens")
    suppressed = (*_tokens(file, given, "suppress_tokens"), *_words(file, given, end))
    last = _one(file, given, "forced_eos_token_id")
    try:
        rules = Generation(
            start=start,
            end=end,
            max_new_tokens=room,
            default_new_tokens=default,
            default_length=length if default is None else None,
            num_beams=given.get("num_beams", 1),
            length_penalty=given.get("length_penalty", 1.0),
            early_stopping=given.get("early_stopping", False),
            sampling=_sampling(given),
            min_length=given.get("min_length", 0) if least is None else 0,  # of both, this is the one that holds
            min_new_tokens=least or 0,
            forced_first=given.get("forced_bos_token_id"),
            forced_last=last,
            suppressed=suppressed,
            suppressed_first=_tokens(file, given, "begin_suppress_tokens"),
            no_repeat_ngram=given.get("no_repeat_ngram_size", 0),
            renormalized=given.get("renormalize_logits", False),
            caches=(),
            memory=(),
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = str(fault["loc"][0])
        raise CheckpointError(
            f"{file}: {THEIRS.get(key, key)}: {fault['msg']}, given {str(fault['input'])[:64]!r}"
        ) from error
    tokens = (rules.start, end, rules.forced_first, rules.forced_last, *rules.suppressed, *rules.suppressed_first)
    if outside := [token for token in tokens if token is not None and not 0 <= token < vocabulary]:
        raise CheckpointError(f"{file}: token {outside[0]} is outside the vocabulary of {vocabulary}")
    if rules.sampling and rules.num_beams > 1:
        raise CheckpointError(
            f"{file}: do_sample with num_beams {rules.num_beams} is not supported; add: --ignore do_sample"
        )
    return rules


TOKENS = ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
"""What `config.json` says where the other file does not."""


THEIRS = {
    "default_new_tokens": "max_new_tokens",
    "default_length": "max_length",
    "forced_first": "forced_bos_token_id",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "renormalized": "renormalize_logits",
}
"""Our names of fields, and the file's."""


def _sampling(given: Mapping[str, Any]) -> Sampling | None:
    if not given.get("do_sample"):
        return None
    top_p = given.get("top_p", 1.0)
    return Sampling(temperature=given.get("temperature", 1.0), top_k=given.get("top_k", 50) or None, top_p=top_p)


def _tokens(file: str, given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    tokens = given.get(name, [])
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise CheckpointError(f"{file}: {name} must be a list of tokens, given {str(tokens)[:64]}")
    return tuple(tokens)


def _token(file: str, given: Mapping[str, Any], *names: str) -> int:
    for name in names:
        token = _one(file, given, name)
        if token is not None:
            return token
    raise CheckpointError(f"{file}: must hold {names[0]}")


def _one(file: str, given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is not None and not isinstance(value, int):
        raise CheckpointError(f"{file}: {name} must be one token, given {str(value)[:64]}")
    return value


def _words(file: str, given: Mapping[str, Any], end: int) -> list[int]:
    """Return the bad words, which must be single tokens; the end of a text is none."""
    words = given.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(isinstance(word, list) and len(word) == 1 for word in words):
        raise CheckpointError(
            f"{file}: bad_words_ids must be single tokens; to do without them, add: --ignore bad_words_ids"
        )
    return [word[0] for word in words if word[0] != end]
