"""The configuration of a checkpoint, config.json: which keys are known, and what they may say."""

import json
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from contract.manifest import Scores
from export.checkpoints.reading.checkpoint import CONFIG
from export.errors import CheckpointError

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Name of an activation in configurations -> our name."""


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ValueError(f"must be one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


Activation = Annotated[str, AfterValidator(_activation)]

Size = Annotated[int, Field(gt=0, lt=1 << 31)]

Depth = Annotated[int, Field(gt=0, le=1024)]
"""A number of blocks. No trained Transformer comes near the bound; the numbers in each block are `SizeLimit`'s."""

Classes = Annotated[int, Field(gt=0, le=1_000_000)]

Index = Annotated[int, Field(ge=0)]

Epsilon = Annotated[float, Field(gt=0)]

IRRELEVANT_KEYS = frozenset(
    """
    _commit_hash _model_name_or_path _name_or_path _num_labels architectures dtype finetuning_task label2id
    model_type name_or_path tokenizer_class torch_dtype torchscript transformers.js_config transformers_version
    use_bfloat16 use_cache activation_dropout attention_dropout attention_probs_dropout_prob attn_pdrop
    classif_dropout classifier_dropout decoder_layerdrop drop_path_rate dropout embd_pdrop encoder_layerdrop
    hidden_dropout_prob qa_dropout resid_pdrop seq_classif_dropout summary_first_dropout gradient_checkpointing
    init_std initializer_factor initializer_range layerscale_value output_attentions output_hidden_states
    output_past return_dict task_specific_params chunk_size_feed_forward prefix sep_token_id cls_token_id
    mask_token_id unk_token_id _attn_implementation_autoset attn_implementation n_special predict_special_tokens
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    replacing_rate save_step embedding_dropout mlp_dropout deterministic_flash_attn reference_compile
    repad_logits_with_grad sparse_prediction sparse_pred_ignore_index initializer_cutoff_factor tf_legacy_loss
    tie_encoder_decoder tokenizer_model_max_length tokenizer_padding_side unsloth_fixed unsloth_version
    _flash_attn_2_enabled cache_implementation
    """.split()
)
"""Keys of any configuration that do not change what a trained model computes: training, bookkeeping, memory."""

GENERATION_KEYS = frozenset(
    """
    bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty
    max_length max_new_tokens min_length min_new_tokens no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences remove_invalid_values renormalize_logits repetition_penalty suppress_tokens temperature top_k
    top_p typical_p output_scores return_dict_in_generate bos_token_id eos_token_id pad_token_id
    """.split()
)
"""Keys of generation. Older checkpoints have them in `config.json`."""


Label = Annotated[str, BeforeValidator(lambda given: given if isinstance(given, str) else json.dumps(given))]
"""A class's name: what is no text is written as JSON writes it."""


def _unquantized(given: object) -> None:
    if given is not None:
        raise ValueError("weights must not be quantized; export the checkpoint that these were made of")


Unquantized = Annotated[None, BeforeValidator(_unquantized)]


class Config(BaseModel):
    """The base of the families' configurations. An unknown key or value is refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    id2label: dict[str, Label] | None = None
    num_labels: Classes | None = None
    problem_type: Literal["single_label_classification", "multi_label_classification", "regression"] | None = None
    is_decoder: Literal[False] = False
    is_encoder_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    tie_word_embeddings: bool = True
    pruned_heads: dict[str, list[int]] = Field({}, max_length=0)
    quantization_config: Unquantized = None
    quantization: Unquantized = None
    """Of MLX."""
    compression_config: Unquantized = None
    """Of older releases of compressed-tensors."""

    irrelevant_keys: ClassVar[frozenset[str]] = frozenset()
    """Further keys that change nothing for this family."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the classes' names in the order of their indices."""
        if self.id2label is None:
            return tuple(f"LABEL_{index}" for index in range(self.num_labels or 2))
        order = {str(index) for index in range(len(self.id2label))}
        if self.id2label.keys() != order or self.num_labels not in (None, len(order)):
            raise CheckpointError(
                f"{CONFIG}: id2label must name the classes 0 to {len(order) - 1}, as many as num_labels says"
            )
        return tuple(self.id2label[str(index)] for index in range(len(order)))

    @property
    def scores(self) -> Scores:
        """Return how logits become probabilities: by sigmoid for one class, or for classes that are not exclusive.

        What was trained as a regression answers them as they are.
        """
        if self.problem_type == "regression":
            return "identity"
        many = self.problem_type == "multi_label_classification" or len(self.labels) == 1
        return "sigmoid" if many else "softmax"
