"""Read `generation_config.json` as the rules by which the service generates."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from contract.generation import Bias, Generation, Sampling
from export.checkpoints.reading.checkpoint import CONFIG, Checkpoint
from export.checkpoints.reading.config import GENERATION_KEYS
from export.errors import CheckpointError

GENERATION_FILE = "generation_config.json"

DISABLING_VALUES: Mapping[str, tuple[Any, ...]] = {
    "diversity_penalty": (0.0,),
    "force_words_ids": (),
    "constraints": (),
    "dola_layers": (),
    "guidance_scale": (1.0,),
    "max_time": (),
    "num_beam_groups": (1,),
    "penalty_alpha": (0.0,),
    "prompt_lookup_num_tokens": (),
    "remove_invalid_values": (False,),
    "stop_strings": (),
    "token_healing": (False,),
    "watermarking_config": (),
}
"""Key that is not supported -> the values, besides null, that switch it off."""

SUPPORTED_KEYS = frozenset(
    """
    bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id do_sample early_stopping
    encoder_no_repeat_ngram_size encoder_repetition_penalty eos_token_id epsilon_cutoff eta_cutoff
    exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length max_new_tokens
    min_length min_new_tokens min_p no_repeat_ngram_size num_beams num_return_sequences pad_token_id renormalize_logits
    repetition_penalty sequence_bias suppress_tokens temperature top_h top_k top_p typical_p
    """.split()
)
IRRELEVANT_KEYS = frozenset(
    """
    _from_model_config assistant_confidence_threshold assistant_early_exit assistant_ensemble_weight
    assistant_lookbehind cache_config cache_implementation compile_config disable_compile is_assistant
    max_cache_len max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule output_attentions
    output_hidden_states output_logits output_scores prefill_chunk_size return_dict_in_generate return_legacy_cache
    speculation_type target_lookbehind transformers_version use_cache use_mtp use_model_defaults low_memory
    continuous_batching_config
    """.split()
)
"""Keys that change memory, speed or what is returned, not the generated text."""

DEFAULT_NEW_TOKENS = 64
"""The default for a model that continues texts if its checkpoint has none: enough for a few sentences."""


def read_generation(
    checkpoint: Checkpoint, *, continues: bool, vocabulary: int, positions: int, ignored: tuple[str, ...]
) -> Generation:
    """Read the rules of generation; the exporter adds the names of caches and memory.

    `continues` says that targets continue their source (a decoder alone) rather than begin with a start token;
    `positions` is the most tokens that the decoder takes. Raises CheckpointError that names what is not supported.
    """
    file, given = _read_keys(checkpoint, ignored)
    if continues and "forced_bos_token_id" in given:
        raise CheckpointError(
            f"{file}: forced_bos_token_id is for encoder-decoders; to do without it, add: --ignore forced_bos_token_id"
        )
    start = None if continues else _required_token(file, given, "decoder_start_token_id", "bos_token_id")
    ends = _end_tokens(file, given)
    default, length = given.get("max_new_tokens"), given.get("max_length")
    if continues and default is None and length is None:
        default = DEFAULT_NEW_TOKENS
    least = given.get("min_new_tokens")
    bad_words = _bad_words(file, given, ends)
    suppressed = (*_token_list(file, given, "suppress_tokens"), *(word[0] for word in bad_words if len(word) == 1))
    last = _optional_token(file, given, "forced_eos_token_id")
    try:
        rules = Generation(
            start=start,
            end=ends[0] if len(ends) == 1 else ends,
            max_new_tokens=positions,
            default_new_tokens=default,
            default_length=length if default is None else None,
            num_beams=given.get("num_beams", 1),
            length_penalty=given.get("length_penalty", 1.0),
            early_stopping=given.get("early_stopping", False),
            sampling=_sampling(given),
            min_length=given.get("min_length", 0) if least is None else 0,  # min_new_tokens holds if both are given
            min_new_tokens=least or 0,
            forced_first=given.get("forced_bos_token_id"),
            forced_last=last,
            suppressed=suppressed,
            suppressed_first=_token_list(file, given, "begin_suppress_tokens"),
            no_repeat_ngram=given.get("no_repeat_ngram_size", 0),
            source_no_repeat_ngram=given.get("encoder_no_repeat_ngram_size", 0),
            bad_words=tuple(word for word in bad_words if len(word) > 1),
            biases=_biases(file, given),
            repetition_penalty=given.get("repetition_penalty", 1.0),
            source_penalty=given.get("encoder_repetition_penalty", 1.0),
            length_decay=_length_decay(file, given),
            num_return_sequences=given.get("num_return_sequences", 1),
            renormalized=given.get("renormalize_logits", False),
            caches=(),
            memory=(),
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = str(problem["loc"][0])
        raise CheckpointError(
            f"{file}: {FILE_KEYS.get(key, key)}: {problem['msg']}, given {str(problem['input'])[:64]!r}"
        ) from error
    _check_rules(file, rules, vocabulary)
    return rules


def _read_keys(checkpoint: Checkpoint, ignored: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Return the name of the file and its keys that matter. Raises CheckpointError for keys that are not supported."""
    file, given = GENERATION_FILE, checkpoint.json(GENERATION_FILE)
    if not given:  # older checkpoints
        file, given = CONFIG, {key: value for key, value in checkpoint.config.items() if key in GENERATION_KEYS}
        if checkpoint.config.get("force_bos_token_to_be_generated"):
            given.setdefault("forced_bos_token_id", checkpoint.config.get("bos_token_id"))
    dropped = IRRELEVANT_KEYS.union(ignored)
    given = {key: value for key, value in given.items() if value is not None and key not in dropped}
    for key, value in given.items():
        if key in DISABLING_VALUES and value not in DISABLING_VALUES[key]:
            raise CheckpointError(
                f"{file}: {key} is not supported, given {str(value)[:64]}; to do without it, add: --ignore {key}"
            )
        if key not in DISABLING_VALUES and key not in SUPPORTED_KEYS:
            raise CheckpointError(f"{file}: {key} is not known; if it changes nothing, add: --ignore {key}")
    tokens = {
        key: checkpoint.config[key]
        for key in TOKEN_KEYS
        if checkpoint.config.get(key) is not None and key not in ignored
    }
    return file, {**tokens, **given}


def _check_rules(file: str, rules: Generation, vocabulary: int) -> None:
    """Raise CheckpointError for tokens outside the vocabulary, sampling with beams, and more texts than are found."""
    tokens = [token for found in rules.named_tokens().values() for token in found]
    if outside := [token for token in tokens if not 0 <= token < vocabulary]:
        raise CheckpointError(f"{file}: token {outside[0]} is outside the vocabulary of {vocabulary}")
    if rules.sampling and rules.sampling.by_default and rules.num_beams > 1:
        raise CheckpointError(
            f"{file}: do_sample with num_beams {rules.num_beams} is not supported; add: --ignore do_sample"
        )
    drawn, texts = rules.sampling and rules.sampling.by_default, rules.num_return_sequences
    if texts > rules.num_beams and not drawn:
        raise CheckpointError(
            f"{file}: num_return_sequences {texts} needs do_sample or as many num_beams, given {rules.num_beams}; "
            "add: --ignore num_return_sequences"
        )


TOKEN_KEYS = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
"""Keys that are read from `config.json` if the other file does not have them. As in the reference, the end is not."""
USUAL_TOP_K = 50
"""Of the reference library, where nobody says otherwise."""
FILE_KEYS = {
    "default_new_tokens": "max_new_tokens",
    "default_length": "max_length",
    "forced_first": "forced_bos_token_id",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "source_no_repeat_ngram": "encoder_no_repeat_ngram_size",
    "source_penalty": "encoder_repetition_penalty",
    "length_decay": "exponential_decay_length_penalty",
    "biases": "sequence_bias",
    "bad_words": "bad_words_ids",
    "renormalized": "renormalize_logits",
}
"""Our name of a field -> the key in the file."""


def _sampling(given: Mapping[str, Any]) -> Sampling:
    """Return how tokens are drawn, by default (`do_sample`) or where a request asks, with the reference's defaults."""
    top_k = given.get("top_k")
    return Sampling(
        temperature=given.get("temperature") or 1.0,
        top_k=USUAL_TOP_K if top_k is None else top_k or None,
        top_p=given.get("top_p") or 1.0,
        min_p=given.get("min_p") or None,  # 0 switches it off
        top_h=given.get("top_h"),
        typical_p=given.get("typical_p"),
        epsilon_cutoff=given.get("epsilon_cutoff") or None,
        eta_cutoff=given.get("eta_cutoff") or None,
        by_default=bool(given.get("do_sample")) and given.get("temperature") != 0,  # 0 is the most likely token
    )


def _token_list(file: str, given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    tokens = given.get(name, [])
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise CheckpointError(f"{file}: {name} must be a list of tokens, given {str(tokens)[:64]}")
    return tuple(tokens)


def _required_token(file: str, given: Mapping[str, Any], *names: str) -> int:
    for name in names:
        token = _optional_token(file, given, name)
        if token is not None:
            return token
    raise CheckpointError(f"{file}: must hold {names[0]}")


def _optional_token(file: str, given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is not None and not isinstance(value, int):
        raise CheckpointError(f"{file}: {name} must be one token, given {str(value)[:64]}")
    return value


def _end_tokens(file: str, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the tokens that end a target; none where nothing does but its length."""
    value = given.get("eos_token_id", [])
    return _token_list(file, {"eos_token_id": value if isinstance(value, list) else [value]}, "eos_token_id")


def _bad_words(file: str, given: Mapping[str, Any], ends: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the bad words, without the tokens that end a text."""
    words = given.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(_is_word(word) for word in words):
        raise CheckpointError(f"{file}: bad_words_ids must be a list of lists of tokens, given {str(words)[:64]}")
    return [tuple(word) for word in words if len(word) > 1 or word[0] not in ends]


def _biases(file: str, given: Mapping[str, Any]) -> tuple[Bias, ...]:
    """Return the biases; the last one of tokens that are listed twice."""
    listed = given.get("sequence_bias", [])
    if not isinstance(listed, list) or not all(
        isinstance(one, list) and len(one) == 2 and _is_word(one[0]) and isinstance(one[1], float) for one in listed
    ):
        raise CheckpointError(f"{file}: sequence_bias must be a list of tokens with a float, given {str(listed)[:64]}")
    return tuple(Bias(tokens=tokens, bias=bias) for tokens, bias in {tuple(one[0]): one[1] for one in listed}.items())


def _is_word(given: object) -> bool:
    return isinstance(given, list) and bool(given) and all(type(token) is int and token >= 0 for token in given)


def _length_decay(file: str, given: Mapping[str, Any]) -> tuple[int, float] | None:
    value = given.get("exponential_decay_length_penalty")
    if value is None:
        return None
    if not isinstance(value, list) or [type(one) for one in value] not in ([int, int], [int, float]):
        raise CheckpointError(
            f"{file}: exponential_decay_length_penalty must be a start and a factor, given {str(value)[:64]}"
        )
    return value[0], float(value[1])
