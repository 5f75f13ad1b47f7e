"""Small checkpoints of every family, made by the reference library with every option varied that it has."""

import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.models.trocr.modeling_trocr import TrOCRSinusoidalPositionalEmbedding

from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families import FAMILIES
from export.checkpoints.reading.checkpoint import open_checkpoint
from export.command import _parser
from export.plan import Source
from tests.samples import export_m2m_100
from tests.samples.export_marian import ENGLISH, make, train
from tests.samples.export_marian import sentences as lines
from tests.samples.exports import export, once
from tests.samples.in_double import in_double

WORDS = "the a one cat dog mat sat on ran to an old new house and red blue bird sky high low was is not very good bad"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?-'äöüéß"


def sharpened(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Give every parameter a part in the answer, and matrices such a size that attention is not uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if not parameter.requires_grad and "position" in name:  # sinusoids
                continue
            if not parameter.requires_grad:  # convolutions that stay as they are, by their fan-out (He et al. 2015)
                parameter.copy_(noise * (2 / parameter[:, 0].numel()) ** 0.5)
            elif parameter.ndim < 2:
                parameter.add_(0.3 * noise)
            elif "query_position" in name:  # objects look at each other by little else
                parameter.copy_(noise * 0.6)
            elif name.endswith("Attention.q.weight"):  # of T5, whose scores nothing divides by √d: as it begins
                parameter.copy_(noise * 1.5 / (parameter[0].numel() * model.config.d_kv) ** 0.5)
            elif "position" in name or "token" in name or "embed" in name or "shared" in name or "wte" in name:
                parameter.copy_(noise)
            elif name.endswith("input_projection.weight"):  # of what convolutions leave, which is large
                parameter.copy_(noise * 0.15 / parameter[0].numel() ** 0.5)
            else:
                parameter.copy_(noise * 1.5 / parameter[0].numel() ** 0.5)
        for name, buffer in model.named_buffers():
            if name.endswith("final_logits_bias"):
                buffer.copy_(torch.randn(buffer.shape, generator=generator))
            elif name.endswith("running_mean"):
                buffer.add_(0.3 * torch.randn(buffer.shape, generator=generator))
            elif name.endswith("running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return model.eval()


def word_pieces(first: str, last: str, pad: str, mask: str, unknown: str, *, offset: int = 0) -> Tokenizer:
    """A tokenizer as BERT's: words, and pieces of those it does not know; `first` and `last` around every text."""
    specials = [f"[unused{index}]" for index in range(offset)] + [pad, first, last, mask, unknown]
    pieces = [*LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS.split()[1:]]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys([*specials, *pieces]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([pad, first, last, mask, unknown])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    tokenizer.enable_padding()  # which folders hold at times, and the service must not obey
    tokenizer.enable_truncation(16)
    return tokenizer


def byte_pairs(size: int = 300) -> Tokenizer:
    """A tokenizer as GPT-2's: bytes, joined to words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([f" {word} {word}" for word in WORDS.split()], trainer)
    return tokenizer


def around(tokenizer: Tokenizer, first: str, last: str) -> Tokenizer:
    """Put special tokens around every text."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} {last} $B {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return tokenizer


Parts: TypeAlias = dict[str, tuple[str, str, str]]
"""For each kind of attention a pattern of the paths where the reference library keeps its attentions, and in each the
projection of values and the one that joins."""


@dataclass(frozen=True)
class Reference:
    """A model of the reference library with random weights."""

    make: Callable[[], Any]
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One checkpoint: the reference's class and configuration, what lies beside it, and what to export it for."""

    model: Reference
    task: str
    """What it must be exported for."""
    files: dict[str, Any] = field(default_factory=dict)
    """Further JSON files by name."""
    tokenizer: Callable[[], Tokenizer] | None = None
    prepare: Callable[[Path], None] | None = None
    options: tuple[str, ...] = ()
    """The options of the command."""
    exported: bool = False
    """Whether it is exported and served, too: it has a graph, or an answer over HTTP, that no other case has. Cases
    that differ from another in names and settings alone are compared as PyTorch computes them."""
    pooling: str | None = None
    """What its folder declares, with vectors of length one; without it, the mean."""
    tower: str | None = None
    """Of two towers, which of the checkpoint's: `vision` or `text`."""
    beside: "Case | None" = None
    """The case of texts, of the same checkpoint, which is exported with this one of pictures."""
    pair: str | None = None
    """The case of pictures whose checkpoint it is."""

    @property
    def mask(self) -> str:
        """The mask token that its tokenizer's settings name."""
        mask = self.files["tokenizer_config.json"]["mask_token"]
        return str(mask["content"] if isinstance(mask, dict) else mask)

    def save(self, folder: Path) -> None:
        """Write the checkpoint."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sharpened(self.model.make())
            model.save_pretrained(folder)
        self._write(folder)
        if self.beside:
            self.beside._write(folder)

    def _write(self, folder: Path) -> None:
        """Write what lies beside the weights."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        if self.tokenizer:
            self.tokenizer().save(str(folder / "tokenizer.json"))
        if self.prepare:
            self.prepare(folder)


AS_READ = "as_read"
"""The folder within that of a checkpoint that holds it as the reference library reads it, which does not read it."""


def reference(folder: Path) -> Any:
    """Load the reference model of a checkpoint, in float64, attention computed as it is written."""
    folder = folder / AS_READ if (folder / AS_READ).is_dir() else folder
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    for part in model.modules():
        if isinstance(part, TrOCRSinusoidalPositionalEmbedding):  # of a loaded model, it holds nothing
            part.weights = part.get_embedding(len(part.weights), part.embedding_dim, part.padding_idx).double()
    return in_double(model)


def processor(kind: str, height: int, width: int, **more: Any) -> dict[str, Any]:
    size = {"height": height, "width": width}
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    return {
        "preprocessor_config.json": {"image_processor_type": kind, "size": size, "image_mean": mean, "image_std": std}
        | more
    }


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "attn_implementation": "eager"}
LABELS = {"id2label": {0: "cat", 1: "dog", 2: "bird"}, "label2id": {"cat": 0, "dog": 1, "bird": 2}}
ONE_LABEL = {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}}
"""Of a model that ranks texts."""
ENDS = {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
"""Of a model that finds answers."""
NLI = {
    "id2label": {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"},
    "label2id": {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2},
}
NLI_OF_TWO = {
    "id2label": {0: "entailment", 1: "not_entailment"},
    "label2id": {"entailment": 0, "not_entailment": 1},
}
"""Of models that say whether a text entails another."""
UNBOUNDED = {"sentence_transformers": {"version": "5.1.0", "activation_fn": "torch.nn.modules.linear.Identity"}}
"""Of one whose scores are logits."""
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC")
TAGGED = {"id2label": dict(enumerate(TAGS)), "label2id": {label: index for index, label in enumerate(TAGS)}}
"""Of a model that finds entities."""
CROP = {"do_center_crop": True, "crop_size": {"height": 8, "width": 8}, "resample": 3, "do_resize": True}
T = transformers

VIT_PARTS: Parts = {"encoder": (r"layers\.\d+\.attention", "v_proj", "o_proj")}
DINO_PARTS: Parts = {"encoder": (r"layer\.\d+\.attention", "v_proj", "o_proj")}
YOLOS_PARTS: Parts = {"encoder": (r"layer\.\d+\.attention", "attention.value", "output.dense")}
BERT_PARTS: Parts = {"encoder": (r"layer\.\d+\.attention", "self.value", "output.dense")}
DISTILBERT_PARTS: Parts = {"encoder": (r"layer\.\d+\.attention", "v_lin", "out_lin")}
GPT2_PARTS: Parts = {"decoder": (r"h\.\d+\.attn", "c_attn", "c_proj")}
SPEECH_PARTS: Parts = {"encoder": (r"layers\.\d+\.attention", "v_proj", "out_proj")}
BART_PARTS: Parts = {
    "encoder": (r"encoder\.layers\.\d+\.self_attn", "v_proj", "out_proj"),
    "decoder": (r"decoder\.layers\.\d+\.self_attn", "v_proj", "out_proj"),
    "cross": (r"decoder\.layers\.\d+\.encoder_attn", "v_proj", "out_proj"),
}
T5_PARTS: Parts = {
    "encoder": (r"encoder\.block\.\d+\.layer\.0\.SelfAttention", "v", "o"),
    "decoder": (r"decoder\.block\.\d+\.layer\.0\.SelfAttention", "v", "o"),
    "cross": (r"decoder\.block\.\d+\.layer\.1\.EncDecAttention", "v", "o"),
}
DETR_PARTS: Parts = {kind: (path, value, "o_proj") for kind, (path, value, _) in BART_PARTS.items()}


def vit(kind: Any = T.ViTForImageClassification, config: Any = T.ViTConfig, **options: Any) -> Reference:
    small = {**SMALL, "intermediate_size": 24, "image_size": (8, 12), "patch_size": 4, "layer_norm_eps": 1e-3}
    return Reference(lambda: kind(config(**{**small, **LABELS, **options})), VIT_PARTS)


def squares(kind: Any, config: Any, parts: Parts = VIT_PARTS, **options: Any) -> Reference:
    """Of an image of 8 x 8: of others, the reference library mixes up the sides of tables of places."""
    return replace(vit(kind, config, **{"image_size": 8, **options}), parts=parts)


def dino(kind: Any, config: Any, **options: Any) -> Reference:
    small = {**SMALL, "image_size": 8, "patch_size": 4, "mlp_ratio": 2}
    return Reference(lambda: kind(config(**{**small, **LABELS, **options})), DINO_PARTS)


def detr(
    kind: Any, config: Any, backbone: dict[str, Any] | None = None, parts: Parts = DETR_PARTS, **options: Any
) -> Reference:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "out_features": ["stage4"]}
    small = {
        "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "num_queries": 5,
        "attn_implementation": "eager", "use_timm_backbone": False,
    }  # fmt: skip
    own = {**sizes, **(backbone or {})}
    sizes = {**small, **LABELS, **options}
    return Reference(lambda: kind(config(**sizes, backbone_config=T.ResNetConfig(**own))), parts)


def swin(kind: Any, config: Any, **options: Any) -> Reference:
    small = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "window_size": 4, "depths": [2, 2], "num_heads": [2, 4]}
    return Reference(lambda: kind(config(**small, **LABELS, **options, attn_implementation="eager")))


def yolos(**options: Any) -> Reference:
    small = {**SMALL, "intermediate_size": 24, "image_size": [8, 12], "patch_size": 4, "layer_norm_eps": 1e-3}
    more = {"num_hidden_layers": 3, "num_detection_tokens": 5}
    sizes = {**small, **more, **LABELS, **options}
    return Reference(lambda: T.YolosForObjectDetection(T.YolosConfig(**sizes)), YOLOS_PARTS)


def edges(kind: str, shortest: int, longest: int, **more: Any) -> dict[str, Any]:
    """A processor that leaves the sides to the image."""
    return processor(kind, 0, 0, **{"size": {"shortest_edge": shortest, "longest_edge": longest}, **more})


def bert(kind: Any, config: Any = T.BertConfig, **options: Any) -> Reference:
    small = {**SMALL, "intermediate_size": 24, "vocab_size": 130, "max_position_embeddings": 40, "pad_token_id": 0}
    return Reference(lambda: kind(config(**{**small, **LABELS, **options})), BERT_PARTS)


def mpnet(kind: Any, **options: Any) -> Reference:
    sizes = {"pad_token_id": 1, "max_position_embeddings": 42, **options}
    return replace(bert(kind, T.MPNetConfig, **sizes), parts={"encoder": (r"layer\.\d+\.attention\.attn", "v", "o")})


def words_of_mpnet() -> Tokenizer:
    return around(word_pieces("<s>", "</s>", "<pad>", "<mask>", "[UNK]", offset=1), "<s>", "</s>")


def modernbert(kind: Any, **options: Any) -> Reference:
    """Local layers see one token on each side, so that texts are longer than what they see."""
    small = {
        **SMALL, "num_hidden_layers": 4, "intermediate_size": 24, "vocab_size": 130, "max_position_embeddings": 40,
        "pad_token_id": 0, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": None,
        "eos_token_id": None,
    }  # fmt: skip
    parts: Parts = {"encoder": (r"layers\.\d+\.attn", "Wqkv", "Wo")}
    return Reference(lambda: kind(T.ModernBertConfig(**{**small, **LABELS, **options})), parts)


def electra(kind: Any, **options: Any) -> Reference:
    return bert(kind, T.ElectraConfig, **{"embedding_size": 12, **options})


def albert(kind: Any, **options: Any) -> Reference:
    sizes = {"embedding_size": 12, "num_hidden_layers": 4, "num_hidden_groups": 2, **options}
    parts: Parts = {"encoder": (r"albert_layers\.\d+\.attention", "value", "dense")}
    return replace(bert(kind, T.AlbertConfig, **sizes), parts=parts)


def deberta(kind: Any, **options: Any) -> Reference:
    """Distances of three and more share buckets."""
    sizes = {
        "relative_attention": True, "position_biased_input": False, "share_att_key": True, "position_buckets": 6,
        "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "max_relative_positions": 12, **options,
    }  # fmt: skip
    parts: Parts = {"encoder": (r"layer\.\d+\.attention", "self.value_proj", "output.dense")}
    return replace(bert(kind, T.DebertaV2Config, **sizes), parts=parts)


ROTARY_PARTS: Parts = {"encoder": (r"layers\.\d+\.self_attn", "v_proj", "o_proj")}


def rotary(kind: Any, config: Any, theta: float = 30.0, **options: Any) -> Reference:
    """Angles that tell the positions of a few tokens apart."""
    return replace(
        bert(kind, config, rope_parameters={"rope_type": "default", "rope_theta": theta}, **options), parts=ROTARY_PARTS
    )


def distilbert(kind: Any, **options: Any) -> Reference:
    small = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "vocab_size": 130, "max_position_embeddings": 40}
    sizes = {**small, "attn_implementation": "eager", **LABELS, **options}
    return Reference(lambda: kind(T.DistilBertConfig(**sizes)), DISTILBERT_PARTS)


def pieces() -> Tokenizer:
    return word_pieces("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]")


def roberta_bytes() -> Tokenizer:
    tokenizer = around(byte_pairs(), "<s>", "</s>")
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return tokenizer


def unigrams(*specials: str) -> Tokenizer:
    """A tokenizer of pieces of a unigram model behind special ones; as XLM-RoBERTa's, if none are named."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, show_progress=False, special_tokens=[*specials] or ["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>", initial_alphabet=list(LETTERS),
    )  # fmt: skip
    tokenizer.train_from_iterator([f"{word} {word}s" for word in WORDS.split()], trainer)
    if specials:
        return tokenizer
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return around(tokenizer, "<s>", "</s>")


TOWER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "attn_implementation": "eager"}
TOWER_PARTS: Parts = {"encoder": (r"layers\.\d+\.self_attn", "v_proj", "out_proj")}
SIGLIP_PARTS: Parts = {**TOWER_PARTS, "cross": ("head.attention", "", "out_proj")}
END = 3
"""The token that ends a text of two towers: not 2, where the reference library takes the largest token for the end."""


def ended() -> Tokenizer:
    return around(byte_pairs(), "<s>", "<unk>")


def towers(
    kind: Any, config: Any, text: dict[str, Any], vision: dict[str, Any], parts: Parts = TOWER_PARTS, **options: Any
) -> Reference:
    texts = {**TOWER, "intermediate_size": 24, "vocab_size": 300, "max_position_embeddings": 40, **text}
    pictures = {**TOWER, "hidden_size": 20, "intermediate_size": 28, "image_size": 12, "patch_size": 4, **vision}
    return Reference(lambda: kind(config(text_config=texts, vision_config=pictures, **options)), parts)


def pair(name: str, image: Case, text: Case, parts: Parts = TOWER_PARTS) -> dict[str, Case]:
    """Return two cases of one checkpoint, of pictures and of texts, that are exported together."""
    text = replace(text, pair=name, model=replace(image.model, parts=parts), exported=image.exported)
    return {name: replace(image, beside=text), f"{name}-text": text}


BERT_TOKENS = {"tokenizer_config.json": {"mask_token": "[MASK]", "model_max_length": 1000000000000000019884624838656}}
TYPED = {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}}
"""Of a family whose own tokenizer tells the model nothing of two texts."""
ROBERTA_TOKENS = {"tokenizer_config.json": {"mask_token": {"content": "<mask>"}, "model_max_length": 36}}
SENTENCES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
    "sentence_bert_config.json": {"max_seq_length": 32, "do_lower_case": False},
}
MEAN_SQRT = {
    "1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_cls_token": False}
    | {"pooling_mode_mean_tokens": False, "pooling_mode_mean_sqrt_len_tokens": True}
}
MAXIMUM = {"1_Pooling/config.json": {"embedding_dimension": 16, "pooling_mode": "max", "include_prompt": True}}
LAST = {"1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_lasttoken": True}}
MEAN = {"1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}}
SPARSE = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_SpladePooling",
            "type": "sentence_transformers.sparse_encoder.models.SpladePooling",
        },
    ],
    "1_SpladePooling/config.json": {"pooling_strategy": "max", "word_embedding_dimension": 130},
    "config_sentence_transformers.json": {"model_type": "SparseEncoder", "prompts": {"query": "one ", "document": ""}},
}
SPARSE_SUMS = SPARSE | {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_SpladePooling",
            "type": "sentence_transformers.sparse_encoder.modules.SpladePooling",
        },
    ],
    "sentence_bert_config.json": {"max_seq_length": 32, "transformer_task": "fill-mask"},
    "1_SpladePooling/config.json": {"pooling_strategy": "sum", "activation_function": "log1p_relu"},
}
ROBERTA = {"pad_token_id": 1, "vocab_size": 300, "type_vocab_size": 1}
BEAMS = {"num_beams": 4, "length_penalty": 0.7, "early_stopping": True, "max_length": 14}

SEQUENCES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "attn_implementation": "eager", "max_position_embeddings": 40,
}  # fmt: skip


def bart(**options: Any) -> Reference:
    small = {**SEQUENCES, "vocab_size": 300, "scale_embedding": True, "activation_function": "gelu_new"}
    return Reference(lambda: T.BartForConditionalGeneration(T.BartConfig(**{**small, **options})), BART_PARTS)


def bart_classifier(**options: Any) -> Reference:
    small = {**SEQUENCES, "vocab_size": 300, "activation_function": "gelu"}
    end = roberta_bytes().token_to_id("</s>")
    ends = {"bos_token_id": None, "eos_token_id": end, "decoder_start_token_id": end, "forced_eos_token_id": None}
    return Reference(lambda: T.BartForSequenceClassification(T.BartConfig(**{**small, **ends, **options})), BART_PARTS)


def gpt2(kind: Any = T.GPT2LMHeadModel, *, parts: Parts = GPT2_PARTS, **options: Any) -> Reference:
    small = {
        "vocab_size": 300,
        "n_embd": 16,
        "n_layer": 3,
        "n_head": 2,
        "n_positions": 48,
        "attn_implementation": "eager",
    }
    tokens = {"bos_token_id": 2, "eos_token_id": 2}
    return Reference(lambda: kind(T.GPT2Config(**{**small, **tokens, **options})), parts)


LLAMA_PARTS: Parts = {"decoder": (r"layers\.\d+\.self_attn", "v_proj", "o_proj")}


def llama(kind: Any, config: Any, theta: float = 30.0, *, parts: Parts = LLAMA_PARTS, **options: Any) -> Reference:
    """Four heads of queries share two of keys; angles tell the positions of a few tokens apart, unless others say."""
    small = {
        **SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": 300,
        "max_position_embeddings": 48, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None,
    }  # fmt: skip
    angles = {"rope_type": "default", **options.pop("rope", {}), "rope_theta": theta}
    return Reference(lambda: kind(config(**{**small, "rope_parameters": angles, **options})), parts)


CONTINUING = {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}
NEOX_PARTS: Parts = {"decoder": (r"layers\.\d+\.attention", "query_key_value", "dense")}


def neox(kind: Any = T.GPTNeoXForCausalLM, *, parts: Parts = NEOX_PARTS, **options: Any) -> Reference:
    small = {
        **SMALL, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 300, "max_position_embeddings": 48,
        "bos_token_id": 0, "eos_token_id": 2,
    }  # fmt: skip
    return Reference(lambda: kind(T.GPTNeoXConfig(**{**small, **options})), parts)


def gptj(**options: Any) -> Reference:
    """Of a head's six numbers four are turned."""
    small = {
        "n_embd": 24, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 48, "vocab_size": 300,
        "bos_token_id": 2, "eos_token_id": 2, "attn_implementation": "eager",
    }  # fmt: skip
    parts = {"decoder": (r"h\.\d+\.attn", "v_proj", "out_proj")}
    return Reference(lambda: T.GPTJForCausalLM(T.GPTJConfig(**{**small, **options})), parts)


def read(parts: Parts) -> Parts:
    """The parts of a decoder whose texts are read, and not continued."""
    return {"encoder": parts["decoder"]}


def gemma3(kind: Any = T.Gemma3ForCausalLM, **options: Any) -> Reference:
    """Two layers of three see three tokens, each kind with angles of its own."""
    angles = {
        "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
    }
    own = {"num_hidden_layers": 3, "head_dim": 6, "sliding_window": 3, "rope_parameters": angles}
    types = {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    return llama(kind, T.Gemma3TextConfig, **{**own, **types, "query_pre_attn_scalar": 9, **options})


PHI3_PARTS: Parts = {"decoder": (r"layers\.\d+\.self_attn", "qkv_proj", "o_proj")}


def begun() -> Tokenizer:
    """A tokenizer that begins every text, as Llama's does."""
    tokenizer = byte_pairs()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


def ended_bytes() -> Tokenizer:
    """A tokenizer that ends every text, as Qwen3-Embedding's does."""
    tokenizer = byte_pairs()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12, "beta_fast": 3.0}


def as_release_4_says(folder: Path) -> None:
    """Say of the angles of a decoder what release 4 says, and what repositories hold."""
    config = json.loads((folder / "config.json").read_text())
    angles = config.pop("rope_parameters")
    config |= {"rope_theta": int(angles.pop("rope_theta")), "torch_dtype": "bfloat16"}
    config |= {"rope_scaling": {**angles, "type": angles.pop("rope_type")}, "pretraining_tp": 1}
    (folder / "config.json").write_text(json.dumps(config))


LETTER_TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "|", "E", "T", "A", "O", "'", "H", "I")


def letters(**more: Any) -> dict[str, Any]:
    """A tokenizer of characters, and settings of a processor that leaves out what is the default."""
    return {
        "vocab.json": {token: index for index, token in enumerate(LETTER_TOKENS)},
        "tokenizer_config.json": {"pad_token": "<pad>", "do_lower_case": False, **more},
        "preprocessor_config.json": {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16_000},
    }


def speech(kind: Any, config: Any = T.Wav2Vec2Config, **options: Any) -> Reference:
    small = {
        **SMALL, "intermediate_size": 24, "conv_dim": [6, 8, 8], "conv_kernel": [10, 8, 4], "conv_stride": [10, 8, 4],
        "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "vocab_size": len(LETTER_TOKENS),
        "classifier_proj_size": 12,
    }  # fmt: skip
    return Reference(lambda: kind(config(**{**small, **options})), SPEECH_PARTS)


STABLE = {
    "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True, "num_conv_pos_embeddings": 5,
    "hidden_act": "gelu_new", "feat_extract_activation": "relu",
}  # fmt: skip
SPECTROGRAM = {"num_mel_bins": 24, "max_length": 30}


def spectrogram(kind: Any, **options: Any) -> Reference:
    small = {
        **SMALL, **SPECTROGRAM, "intermediate_size": 24, "patch_size": 6, "frequency_stride": 5, "time_stride": 4,
        "qkv_bias": False,
    }  # fmt: skip
    return Reference(lambda: kind(T.ASTConfig(**{**small, **LABELS, **options})), VIT_PARTS)


def filter_bank(**more: Any) -> dict[str, Any]:
    settings = {"feature_extractor_type": "ASTFeatureExtractor", **SPECTROGRAM, **more}
    return {"preprocessor_config.json": settings}


def marian(**options: Any) -> Reference:
    tokens = {"pad_token_id": 699, "decoder_start_token_id": 699, "eos_token_id": 0, "forced_eos_token_id": 0}
    small = {**SEQUENCES, **tokens, "vocab_size": 700, "activation_function": "swish", "scale_embedding": True}
    return Reference(lambda: T.MarianMTModel(T.MarianConfig(**{**small, **options})), BART_PARTS)


def sentence_pieces(folder: Path) -> None:
    """Marian's tokenizers: two sentencepiece models and one vocabulary, beyond which nothing may be generated."""
    make(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    rules = json.loads((folder / "generation_config.json").read_text())
    rules["suppress_tokens"] = list(range(len(vocabulary), 699))
    (folder / "generation_config.json").write_text(json.dumps(rules))


def a_vocabulary_a_side(folder: Path) -> None:
    """The same with the targets' vocabulary apart."""
    sentence_pieces(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "target_vocab.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True, "model_max_length": 512}))


ANGLES = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
}


def spelled_before(folder: Path) -> None:
    """Say of a ModernBERT what release 4 says, and what repositories hold."""
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"], config["layer_types"]
    config |= {"global_rope_theta": 900, "local_rope_theta": 20.0, "global_attn_every_n_layers": 2}
    config |= {"position_embedding_type": "absolute", "reference_compile": None, "layer_norm_eps": 0.5}
    (folder / "config.json").write_text(json.dumps(config))


def as_nomic_has_it(folder: Path) -> None:
    """Add keys that repositories of Nomic have beside those of the reference library."""
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"]
    config |= {"n_embd": 16, "n_layer": 2, "n_positions": 8192, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0}
    config |= {"rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "qkv_proj_bias": False, "prenorm": False}
    (folder / "config.json").write_text(json.dumps(config))


def named_new(folder: Path) -> None:
    """Say of a GTE what its authors' first repositories say, with their names."""
    (folder / AS_READ).mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder / name, folder / AS_READ)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "new", "architectures": ["NewModel"], "rope_theta": 30, "rope_scaling": None}
    config |= {"position_embedding_type": "rope", "layer_norm_type": "layer_norm", "pack_qkv": True}
    del config["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {f"new.{name}": tensor for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"}
    )


def normalising_before(folder: Path) -> None:
    """Say of an mBART's checkpoint what it is."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "bart", "normalize_before": True, "add_final_layer_norm": True}
    (folder / "config.json").write_text(json.dumps(config))


TROCR_PARTS: Parts = {
    "encoder": (r"encoder\.layers?\.\d+\.attention", "v_proj", "o_proj"),
    "decoder": (r"decoder\.layers\.\d+\.self_attn", "v_proj", "out_proj"),
    "cross": (r"decoder\.layers\.\d+\.encoder_attn", "v_proj", "out_proj"),
}
VIT_GPT2_PARTS: Parts = {
    "encoder": TROCR_PARTS["encoder"],
    "decoder": (r"h\.\d+\.attn", "c_attn", "c_proj"),
    "cross": (r"h\.\d+\.crossattention", "c_attn", "c_proj"),
}
IMAGE_TO_TEXT_TOKENS = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0}


def image_to_text(
    encoder: Any, seen: dict[str, Any], decoder: Any, written: dict[str, Any], parts: Parts = TROCR_PARTS
) -> Reference:
    """A decoder of texts behind an encoder of pictures."""
    picture = {**SMALL, "intermediate_size": 24, "image_size": 8, "patch_size": 4, "layer_norm_eps": 1e-3}

    def make() -> Any:
        halves = encoder(**{**picture, **seen}), decoder(vocab_size=300, **written)
        config = T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
            *halves, **IMAGE_TO_TEXT_TOKENS, tie_word_embeddings=False, attn_implementation="eager"
        )
        return T.VisionEncoderDecoderModel(config)

    return Reference(make, parts)


SMALL_TROCR = {
    "d_model": 24, "decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 20,
    "max_position_embeddings": 40, "cross_attention_hidden_size": 16,
}  # fmt: skip
IMAGE_TO_TEXT_RULES = {"generation_config.json": IMAGE_TO_TEXT_TOKENS | {"max_length": 12}}
"""The tokens and rules of a model that reads pictures."""


def multilingual(config: Any, kind: Any, **options: Any) -> Reference:
    small = {**SEQUENCES, "vocab_size": 300, "scale_embedding": True, "pad_token_id": 1, "decoder_start_token_id": 2}
    return Reference(lambda: kind(config(**{**small, **options})), BART_PARTS)


def t5(config: Any, kind: Any, **options: Any) -> Reference:
    """Heads are wider than their share of the width, and texts longer than what has a bucket of its own."""
    small = {
        "vocab_size": 120, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_heads": 3, "num_layers": 2, "n_positions": 40,
        "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0,
        "attn_implementation": "eager",
    }  # fmt: skip
    return Reference(lambda: kind(config(**{**small, **options})), T5_PARTS)


def ending() -> Tokenizer:
    """A tokenizer as T5's: pieces of a unigram model, and an end behind a text."""
    tokenizer = unigrams("<pad>", "</s>", "<unk>")
    ends = [("</s>", tokenizer.token_to_id("</s>"))]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=ends
    )
    return tokenizer


def as_published(folder: Path) -> None:
    """Give a T5's checkpoint a matrix of its own for the output, and what repositories say of version 1.1."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"tie_word_embeddings": False, "output_past": True, "classifier_dropout": 0.0}
    for key in ("scale_decoder_outputs", "is_gated_act", "dense_act_fn"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(3)
    tensors["lm_head.weight"] = torch.randn(tensors["shared.weight"].shape, generator=generator) / 4
    tensors |= {f"{side}.embed_tokens.weight": tensors["shared.weight"].clone() for side in ("encoder", "decoder")}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def spiece(folder: Path) -> None:
    """The same with a SentencePiece model alone for a tokenizer, beyond which nothing may be generated."""
    as_published(folder)
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    made = train(folder / "spiece.model", lines(ENGLISH, 300, 1), model_type="unigram", vocab_size=130, **ids)
    rules = json.loads((folder / "generation_config.json").read_text())
    rules["suppress_tokens"] = list(range(len(made) + 3, 240))
    (folder / "generation_config.json").write_text(json.dumps(rules))


def in_languages(*codes: str) -> Callable[[], Tokenizer]:
    """A tokenizer with tokens for languages, and a template of special tokens that is not the reference's."""

    def made() -> Tokenizer:
        tokenizer = byte_pairs(270)
        tokenizer.add_special_tokens([AddedToken(code, special=True, normalized=False) for code in codes])
        return around(tokenizer, "<s>", "</s>")

    return made


def m2m_100_pieces(folder: Path) -> None:
    """M2M-100's tokenizer, beyond which nothing may be generated."""
    export_m2m_100.make(folder)
    known = len(json.loads((folder / "vocab.json").read_text())) + len(export_m2m_100.LANGUAGES["m2m100"])
    rules = json.loads((folder / "generation_config.json").read_text())
    # nor padding, behind which the reference counts positions anew
    rules["suppress_tokens"] = [1, *range(known, 400)]
    (folder / "generation_config.json").write_text(json.dumps(rules))


OF_EACH_LAYER = {"use_relative_position_bias": True}
OF_ALL_LAYERS = {"use_shared_relative_position_bias": True}
"""Which tables of places a BEiT has."""
LANGUAGE_CODES = ("de_DE", "en_XX", "fr_XX")
TRANSLATING = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, "max_length": 14}
T5_TOKENS = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
T5_GENERATION = {"generation_config.json": {**T5_TOKENS, **BEAMS}}
MARIAN_GENERATION = {
    "generation_config.json": {
        "bad_words_ids": [[699]], "bos_token_id": 0, "decoder_start_token_id": 699, "eos_token_id": 0,
        "pad_token_id": 699, "forced_eos_token_id": 0, "max_length": 16, "num_beams": 4,
        "no_repeat_ngram_size": 2, "renormalize_logits": True,
    }
}  # fmt: skip

CASES = {
    "vit": Case(
        vit(qkv_bias=False, hidden_act="gelu_new"), "image-classification",
        processor("ViTImageProcessor", 8, 12), exported=True,
    ),
    "vit-features": Case(
        vit(T.ViTModel, patch_size=[4, 2], hidden_act="quick_gelu", pooler_output_size=12, pooler_act="relu"),
        "feature-extraction",
        processor("ViTImageProcessor", 8, 12, resample=3, do_rescale=False),
        exported=True,
    ),
    "vit-larger": Case(
        vit(image_size=8), "image-classification", processor("ViTFeatureExtractor", 8, 8),
        options=("--image-size", "16"),
    ),
    "deit": Case(
        vit(T.DeiTForImageClassification, T.DeiTConfig, image_size=8, problem_type="multi_label_classification"),
        "image-classification",
        processor("DeiTImageProcessor", 10, 10, **CROP),
    ),
    "deit-distilled": Case(
        vit(T.DeiTForImageClassificationWithTeacher, T.DeiTConfig, image_size=8),
        "image-classification",
        processor("DeiTImageProcessor", 10, 10, **CROP),
        exported=True,
    ),
    "deit-features": Case(
        vit(T.DeiTModel, T.DeiTConfig, image_size=8), "feature-extraction",
        processor("DeiTImageProcessor", 10, 10, **CROP),
    ),
    "dinov2": Case(
        dino(T.Dinov2ForImageClassification, T.Dinov2Config, use_swiglu_ffn=True, qkv_bias=False, image_size=12),
        "image-classification",
        processor("BitImageProcessor", 8, 8, **CROP),
    ),
    "dinov2-features": Case(
        dino(T.Dinov2Model, T.Dinov2Config, hidden_act="gelu_new"), "feature-extraction",
        processor("BitImageProcessor", 8, 8, **CROP),
    ),
    "dinov2-registers": Case(
        dino(
            T.Dinov2WithRegistersForImageClassification, T.Dinov2WithRegistersConfig,
            num_register_tokens=3, image_size=16,
        ),
        "image-classification",
        processor("BitImageProcessor", 8, 8, **CROP),
        exported=True,
    ),
    "dinov2-registers-features": Case(
        dino(T.Dinov2WithRegistersModel, T.Dinov2WithRegistersConfig, use_swiglu_ffn=True), "feature-extraction",
        processor("BitImageProcessor", 8, 8, **CROP),
    ),
    "dinov3": Case(
        squares(
            T.DINOv3ViTModel, T.DINOv3ViTConfig, DINO_PARTS, num_register_tokens=3, use_gated_mlp=True,
            hidden_act="silu", rope_theta=7.0, image_size=16,
        ),
        "feature-extraction",
        processor("DINOv3ViTImageProcessorFast", 8, 12),
    ),
    "dinov3-plain": Case(
        squares(
            T.DINOv3ViTModel, T.DINOv3ViTConfig, DINO_PARTS, query_bias=False, value_bias=False, key_bias=True,
            proj_bias=False, patch_size=[2, 4],
        ),
        "feature-extraction",
        processor("DINOv3ViTImageProcessorFast", 8, 8),
    ),
    "beit": Case(
        squares(T.BeitForImageClassification, T.BeitConfig, **OF_EACH_LAYER), "image-classification",
        processor("BeitFeatureExtractor", 10, 10, **CROP),
        exported=True,
    ),
    "beit-shared": Case(
        squares(
            T.BeitForImageClassification, T.BeitConfig, **OF_ALL_LAYERS, use_mean_pooling=False,
            use_absolute_position_embeddings=True, layer_scale_init_value=0.0, use_mask_token=True,
        ),
        "image-classification",
        processor("BeitImageProcessor", 8, 8),
        options=("--image-size", "12x16"),
    ),
    "beit-features": Case(
        squares(T.BeitModel, T.BeitConfig, **OF_EACH_LAYER, **OF_ALL_LAYERS, hidden_act="relu"), "feature-extraction",
        processor("BeitImageProcessor", 8, 8),
    ),
    "beit-features-first": Case(
        squares(T.BeitModel, T.BeitConfig, use_mean_pooling=False), "feature-extraction",
        processor("BeitImageProcessor", 8, 8),
    ),
    "data2vec-vision": Case(
        squares(T.Data2VecVisionForImageClassification, T.Data2VecVisionConfig, YOLOS_PARTS, **OF_EACH_LAYER),
        "image-classification",
        processor("BeitImageProcessor", 8, 8),
    ),
    "data2vec-vision-features": Case(
        squares(
            T.Data2VecVisionModel, T.Data2VecVisionConfig, YOLOS_PARTS, **OF_ALL_LAYERS, use_mean_pooling=False,
        ),
        "feature-extraction",
        processor("BeitImageProcessor", 8, 8),
    ),
    "data2vec-vision-features-mean": Case(
        squares(
            T.Data2VecVisionModel, T.Data2VecVisionConfig, YOLOS_PARTS, use_absolute_position_embeddings=True,
            hidden_act="gelu_new",
        ),
        "feature-extraction",
        processor("BeitImageProcessor", 8, 8),
    ),
    "vit-mae": Case(
        vit(T.ViTMAEModel, T.ViTMAEConfig, qkv_bias=False), "feature-extraction",
        processor("ViTFeatureExtractor", 8, 12),
    ),
    "vit-msn": Case(
        vit(T.ViTMSNForImageClassification, T.ViTMSNConfig), "image-classification",
        processor("ViTFeatureExtractor", 8, 12),
    ),
    "vit-msn-features": Case(
        vit(T.ViTMSNModel, T.ViTMSNConfig, qkv_bias=False, hidden_act="quick_gelu"), "feature-extraction",
        processor("ViTFeatureExtractor", 8, 12),
    ),
    "ijepa": Case(
        vit(T.IJepaForImageClassification, T.IJepaConfig), "image-classification",
        processor("ViTImageProcessor", 8, 12),
    ),
    "ijepa-features": Case(
        vit(T.IJepaModel, T.IJepaConfig, qkv_bias=False, image_size=8), "feature-extraction",
        processor("ViTImageProcessor", 8, 8),
        options=("--image-size", "16"),
    ),
    "swin": Case(
        swin(T.SwinForImageClassification, T.SwinConfig, qkv_bias=False), "image-classification",
        processor("ViTImageProcessor", 32, 32), exported=True,
    ),
    "swin-v2": Case(
        swin(T.Swinv2ForImageClassification, T.Swinv2Config, hidden_act="gelu_new"), "image-classification",
        processor("ViTImageProcessor", 32, 32), exported=True,
    ),
    "detr": Case(
        detr(T.DetrForObjectDetection, T.DetrConfig, activation_function="gelu"), "object-detection",
        edges("DetrImageProcessor", 64, 96, pad_size={"height": 64, "width": 96}),
        exported=True,
    ),
    "detr-learned": Case(
        detr(
            T.DetrForObjectDetection, T.DetrConfig, position_embedding_type="learned", num_queries=4,
        ),
        "object-detection",
        edges(
            "DetrFeatureExtractor", 64, 110, size=64, max_size=110, resample=3, rescale_factor=0.003, pad_size=[96, 64],
        ),
        options=("--image-size", "90x64"),
    ),
    "detr-resized": Case(
        detr(T.DetrForObjectDetection, T.DetrConfig, {"downsample_in_bottleneck": True}), "object-detection",
        processor("DetrImageProcessor", 64, 96),
    ),
    "table-transformer": Case(
        detr(T.TableTransformerForObjectDetection, T.TableTransformerConfig, {"layer_type": "basic"}, BART_PARTS),
        "object-detection",
        edges("DetrImageProcessor", 64, 64, pad_size=64),
    ),
    "conditional-detr": Case(
        detr(T.ConditionalDetrForObjectDetection, T.ConditionalDetrConfig, num_channels=3), "object-detection",
        processor("ConditionalDetrImageProcessor", 0, 0, size={"max_height": 64, "max_width": 96}, pad_size=[64, 96]),
        exported=True,
    ),
    "yolos": Case(
        yolos(hidden_act="gelu_new"), "object-detection", edges("YolosImageProcessor", 8, 12, do_normalize=False),
        options=("--image-size", "11x14"),
        exported=True,
    ),
    "yolos-plain": Case(
        yolos(use_mid_position_embeddings=False, qkv_bias=False), "object-detection",
        processor("YolosImageProcessor", 8, 12),
    ),
    "bert": Case(
        bert(T.BertForSequenceClassification, hidden_act="gelu_new"), "text-classification", {}, pieces, exported=True
    ),
    "bert-rank": Case(
        bert(T.BertForSequenceClassification, **ONE_LABEL), "text-classification", {}, pieces, exported=True
    ),
    "bert-tags": Case(
        bert(T.BertForTokenClassification, **TAGGED), "token-classification", BERT_TOKENS, pieces, exported=True
    ),
    "bert-answer": Case(bert(T.BertForQuestionAnswering, **ENDS), "question-answering", {}, pieces, exported=True),
    "bert-nli": Case(bert(T.BertForSequenceClassification, **NLI), "text-classification", {}, pieces),
    "bert-mask": Case(bert(T.BertForPreTraining, hidden_act="relu"), "fill-mask", BERT_TOKENS, pieces, exported=True),
    "bert-features": Case(
        bert(T.BertModel), "feature-extraction", SENTENCES | MEAN_SQRT, pieces, exported=True,
        pooling="mean_sqrt_length",
    ),
    "bert-sparse": Case(
        bert(T.BertForMaskedLM), "sparse-embedding", BERT_TOKENS | SPARSE, pieces, exported=True
    ),
    "roberta": Case(
        bert(T.RobertaForSequenceClassification, T.RobertaConfig, **ROBERTA, problem_type="multi_label_classification"),
        "text-classification", ROBERTA_TOKENS, roberta_bytes,
        exported=True,
    ),
    "roberta-rank": Case(
        bert(T.RobertaForSequenceClassification, T.RobertaConfig, **ROBERTA, **ONE_LABEL, **UNBOUNDED),
        "text-classification", ROBERTA_TOKENS, roberta_bytes,
    ),
    "roberta-tags": Case(
        bert(T.RobertaForTokenClassification, T.RobertaConfig, **ROBERTA, **TAGGED), "token-classification",
        ROBERTA_TOKENS, roberta_bytes,
        exported=True,
    ),
    "roberta-answer": Case(
        bert(T.RobertaForQuestionAnswering, T.RobertaConfig, **ROBERTA, **ENDS), "question-answering", ROBERTA_TOKENS,
        roberta_bytes,
        exported=True,
    ),
    "roberta-nli": Case(
        bert(T.RobertaForSequenceClassification, T.RobertaConfig, **ROBERTA, **NLI_OF_TWO),
        "text-classification", ROBERTA_TOKENS, roberta_bytes,
    ),
    "roberta-mask": Case(
        bert(T.RobertaForMaskedLM, T.RobertaConfig, **ROBERTA, tie_word_embeddings=False, hidden_act="silu"),
        "fill-mask", ROBERTA_TOKENS, roberta_bytes,
        exported=True,
    ),
    "roberta-sparse": Case(
        bert(T.RobertaForMaskedLM, T.RobertaConfig, **ROBERTA, tie_word_embeddings=False), "sparse-embedding",
        ROBERTA_TOKENS, roberta_bytes, options=("--task", "sparse-embedding"),
    ),
    "xlm-roberta": Case(
        bert(T.XLMRobertaForSequenceClassification, T.XLMRobertaConfig, **ROBERTA), "text-classification",
        ROBERTA_TOKENS, unigrams,
    ),
    "xlm-roberta-tags": Case(
        bert(T.XLMRobertaForTokenClassification, T.XLMRobertaConfig, **ROBERTA, **TAGGED), "token-classification",
        ROBERTA_TOKENS, unigrams,
        exported=True,
    ),
    "camembert-tags": Case(
        bert(T.CamembertForTokenClassification, T.CamembertConfig, **ROBERTA, **TAGGED), "token-classification",
        ROBERTA_TOKENS, unigrams,
    ),
    "xlm-roberta-answer": Case(
        bert(T.XLMRobertaForQuestionAnswering, T.XLMRobertaConfig, **ROBERTA, **ENDS), "question-answering",
        ROBERTA_TOKENS, unigrams,
    ),
    "camembert-answer": Case(
        bert(T.CamembertForQuestionAnswering, T.CamembertConfig, **ROBERTA, **ENDS), "question-answering",
        ROBERTA_TOKENS, unigrams,
    ),
    "camembert-mask": Case(
        bert(T.CamembertForMaskedLM, T.CamembertConfig, **ROBERTA), "fill-mask", ROBERTA_TOKENS, unigrams
    ),
    "roberta-features": Case(
        bert(T.RobertaModel, T.RobertaConfig, **ROBERTA), "feature-extraction", {}, roberta_bytes, exported=True
    ),
    "distilbert": Case(distilbert(T.DistilBertForSequenceClassification), "text-classification", {}, pieces),
    "distilbert-tags": Case(
        distilbert(T.DistilBertForTokenClassification, **TAGGED), "token-classification", BERT_TOKENS, pieces,
        exported=True,
    ),
    "distilbert-answer": Case(
        distilbert(T.DistilBertForQuestionAnswering, **ENDS), "question-answering", {}, pieces
    ),
    "distilbert-mask": Case(distilbert(T.DistilBertForMaskedLM, activation="relu"), "fill-mask", BERT_TOKENS, pieces),
    "distilbert-sparse": Case(
        distilbert(T.DistilBertForMaskedLM), "sparse-embedding", BERT_TOKENS | SPARSE_SUMS, pieces, exported=True
    ),
    "distilbert-features": Case(
        distilbert(T.DistilBertModel), "feature-extraction", SENTENCES | MAXIMUM, pieces, pooling="max"
    ),
    "mpnet": Case(mpnet(T.MPNetForSequenceClassification), "text-classification", {}, words_of_mpnet),
    "mpnet-tags": Case(
        mpnet(T.MPNetForTokenClassification, **TAGGED), "token-classification",
        {"tokenizer_config.json": {"mask_token": "<mask>"}}, words_of_mpnet,
    ),
    "mpnet-answer": Case(mpnet(T.MPNetForQuestionAnswering, **ENDS), "question-answering", {}, words_of_mpnet),
    "mpnet-mask": Case(
        mpnet(T.MPNetForMaskedLM, hidden_act="relu"), "fill-mask",
        {"tokenizer_config.json": {"mask_token": "<mask>"}}, words_of_mpnet, exported=True,
    ),
    "mpnet-features": Case(
        mpnet(T.MPNetModel), "feature-extraction", SENTENCES | MEAN, words_of_mpnet, pooling="mean"
    ),
    "modernbert": Case(
        modernbert(
            T.ModernBertForSequenceClassification, classifier_pooling="mean", classifier_activation="relu",
            norm_bias=True, mlp_bias=True,
        ),
        "text-classification", {}, pieces,
    ),
    "modernbert-first": Case(
        modernbert(T.ModernBertForSequenceClassification, attention_bias=True, classifier_bias=True, **ONE_LABEL),
        "text-classification", {}, pieces, prepare=spelled_before,
    ),
    "modernbert-tags": Case(
        modernbert(T.ModernBertForTokenClassification, **TAGGED, hidden_activation="relu"), "token-classification",
        BERT_TOKENS, pieces, exported=True,
    ),
    "modernbert-answer": Case(
        modernbert(T.ModernBertForQuestionAnswering, **ENDS, layer_types=["sliding_attention", "full_attention"] * 2),
        "question-answering", {}, pieces,
    ),
    "modernbert-mask": Case(
        modernbert(T.ModernBertForMaskedLM, decoder_bias=False, rope_parameters=ANGLES), "fill-mask", BERT_TOKENS,
        pieces,
    ),
    "modernbert-sparse": Case(
        modernbert(T.ModernBertForMaskedLM, tie_word_embeddings=False), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "modernbert-features": Case(
        modernbert(T.ModernBertModel), "feature-extraction", SENTENCES | MEAN, pieces, pooling="mean"
    ),
    "electra": Case(electra(T.ElectraForSequenceClassification), "text-classification", {}, pieces),
    "electra-tags": Case(
        electra(T.ElectraForTokenClassification, **TAGGED, embedding_size=16), "token-classification", BERT_TOKENS,
        pieces,
    ),
    "electra-answer": Case(electra(T.ElectraForQuestionAnswering, **ENDS), "question-answering", {}, pieces),
    "electra-mask": Case(electra(T.ElectraForMaskedLM, hidden_act="relu"), "fill-mask", BERT_TOKENS, pieces),
    "electra-sparse": Case(
        electra(T.ElectraForMaskedLM, tie_word_embeddings=False), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "electra-features": Case(electra(T.ElectraModel), "feature-extraction", SENTENCES | MEAN, pieces, pooling="mean"),
    "albert": Case(albert(T.AlbertForSequenceClassification), "text-classification", TYPED, pieces),
    "albert-tags": Case(
        albert(T.AlbertForTokenClassification, **TAGGED, num_hidden_groups=1), "token-classification", BERT_TOKENS,
        pieces,
    ),
    "albert-answer": Case(
        albert(T.AlbertForQuestionAnswering, **ENDS, inner_group_num=2, num_hidden_layers=2), "question-answering",
        TYPED, pieces,
    ),
    "albert-mask": Case(albert(T.AlbertForPreTraining, hidden_act="relu"), "fill-mask", BERT_TOKENS, pieces),
    "albert-sparse": Case(
        albert(T.AlbertForMaskedLM, tie_word_embeddings=False), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "albert-features": Case(albert(T.AlbertModel), "feature-extraction", SENTENCES | MEAN, pieces, pooling="mean"),
    "deberta-v2": Case(
        deberta(T.DebertaV2ForSequenceClassification, pooler_hidden_act="tanh"), "text-classification", {}, pieces,
        exported=True,
    ),
    "deberta-v2-tags": Case(
        deberta(T.DebertaV2ForTokenClassification, **TAGGED, position_buckets=-1, max_relative_positions=4),
        "token-classification", BERT_TOKENS, pieces,
    ),
    "deberta-v2-answer": Case(
        deberta(
            T.DebertaV2ForQuestionAnswering, **ENDS, type_vocab_size=2, max_relative_positions=-1, norm_rel_ebd="none",
        ),
        "question-answering", {}, pieces,
    ),
    "deberta-v2-mask": Case(deberta(T.DebertaV2ForMaskedLM), "fill-mask", BERT_TOKENS, pieces),
    "deberta-v2-sparse": Case(
        deberta(T.DebertaV2ForMaskedLM, legacy=False, hidden_act="relu"), "sparse-embedding", BERT_TOKENS | SPARSE,
        pieces,
    ),
    "deberta-v2-features": Case(
        deberta(T.DebertaV2Model, pos_att_type="c2p|p2c"), "feature-extraction", SENTENCES | MEAN, pieces,
        pooling="mean",
    ),
    "jina-v3": Case(
        rotary(T.JinaEmbeddingsV3ForSequenceClassification, T.JinaEmbeddingsV3Config, **ROBERTA), "text-classification",
        ROBERTA_TOKENS, unigrams,
    ),
    "jina-v3-tags": Case(
        rotary(T.JinaEmbeddingsV3ForTokenClassification, T.JinaEmbeddingsV3Config, **ROBERTA, **TAGGED),
        "token-classification", ROBERTA_TOKENS, unigrams,
    ),
    "jina-v3-answer": Case(
        rotary(T.JinaEmbeddingsV3ForQuestionAnswering, T.JinaEmbeddingsV3Config, **ROBERTA, **ENDS),
        "question-answering", ROBERTA_TOKENS, unigrams,
    ),
    "jina-v3-mask": Case(
        rotary(T.JinaEmbeddingsV3ForMaskedLM, T.JinaEmbeddingsV3Config, **ROBERTA, hidden_act="relu"), "fill-mask",
        ROBERTA_TOKENS, unigrams,
    ),
    "jina-v3-sparse": Case(
        rotary(T.JinaEmbeddingsV3ForMaskedLM, T.JinaEmbeddingsV3Config, **ROBERTA, tie_word_embeddings=False),
        "sparse-embedding", ROBERTA_TOKENS, unigrams, options=("--task", "sparse-embedding"),
    ),
    "jina-v3-features": Case(
        rotary(T.JinaEmbeddingsV3Model, T.JinaEmbeddingsV3Config, **ROBERTA), "feature-extraction", SENTENCES | MEAN,
        unigrams, pooling="mean",
    ),
    "nomic-bert": Case(
        rotary(T.NomicBertForSequenceClassification, T.NomicBertConfig, **ONE_LABEL), "text-classification", {}, pieces,
    ),
    "nomic-bert-tags": Case(
        rotary(T.NomicBertForTokenClassification, T.NomicBertConfig, **TAGGED, hidden_act="gelu"),
        "token-classification", BERT_TOKENS, pieces,
    ),
    "nomic-bert-mask": Case(
        rotary(T.NomicBertForMaskedLM, T.NomicBertConfig), "fill-mask", BERT_TOKENS, pieces,
    ),
    "nomic-bert-sparse": Case(
        rotary(T.NomicBertForMaskedLM, T.NomicBertConfig), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "nomic-bert-features": Case(
        rotary(T.NomicBertModel, T.NomicBertConfig, theta=1000.0), "feature-extraction", SENTENCES | MEAN, pieces,
        prepare=as_nomic_has_it, pooling="mean",
    ),
    "gte": Case(
        rotary(T.GteForSequenceClassification, T.GteConfig, type_vocab_size=2), "text-classification", {}, pieces
    ),
    "gte-tags": Case(
        rotary(T.GteForTokenClassification, T.GteConfig, **TAGGED, type_vocab_size=0), "token-classification",
        BERT_TOKENS, pieces,
    ),
    "gte-mask": Case(
        rotary(T.GteForMaskedLM, T.GteConfig, tie_word_embeddings=False), "fill-mask", BERT_TOKENS, pieces
    ),
    "gte-sparse": Case(
        rotary(T.GteForMaskedLM, T.GteConfig), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "gte-features": Case(
        rotary(T.GteModel, T.GteConfig), "feature-extraction", SENTENCES | MEAN, pieces, prepare=named_new,
        pooling="mean",
    ),
    "eurobert": Case(
        rotary(T.EuroBertForSequenceClassification, T.EuroBertConfig, num_key_value_heads=1), "text-classification", {},
        pieces,
    ),
    "eurobert-first": Case(
        rotary(T.EuroBertForSequenceClassification, T.EuroBertConfig, classifier_pooling="bos", attention_bias=True),
        "text-classification", {}, pieces,
    ),
    "eurobert-mean": Case(
        rotary(T.EuroBertForSequenceClassification, T.EuroBertConfig, classifier_pooling="mean", mlp_bias=True),
        "text-classification", {}, pieces,
    ),
    "eurobert-tags": Case(
        rotary(T.EuroBertForTokenClassification, T.EuroBertConfig, **TAGGED, hidden_act="gelu"), "token-classification",
        BERT_TOKENS, pieces,
    ),
    "eurobert-mask": Case(
        rotary(T.EuroBertForMaskedLM, T.EuroBertConfig, tie_word_embeddings=True, mlp_bias=True), "fill-mask",
        BERT_TOKENS, pieces,
    ),
    "eurobert-sparse": Case(
        rotary(T.EuroBertForMaskedLM, T.EuroBertConfig), "sparse-embedding", BERT_TOKENS | SPARSE, pieces
    ),
    "eurobert-features": Case(
        rotary(T.EuroBertModel, T.EuroBertConfig), "feature-extraction", SENTENCES | MEAN, pieces, pooling="mean"
    ),
    "prelayernorm": Case(
        bert(T.RobertaPreLayerNormForSequenceClassification, T.RobertaPreLayerNormConfig, **ROBERTA),
        "text-classification", ROBERTA_TOKENS, roberta_bytes,
    ),
    "prelayernorm-tags": Case(
        bert(T.RobertaPreLayerNormForTokenClassification, T.RobertaPreLayerNormConfig, **ROBERTA, **TAGGED),
        "token-classification", ROBERTA_TOKENS, roberta_bytes,
    ),
    "prelayernorm-answer": Case(
        bert(T.RobertaPreLayerNormForQuestionAnswering, T.RobertaPreLayerNormConfig, **ROBERTA, **ENDS),
        "question-answering", ROBERTA_TOKENS, roberta_bytes,
    ),
    "prelayernorm-mask": Case(
        bert(T.RobertaPreLayerNormForMaskedLM, T.RobertaPreLayerNormConfig, **ROBERTA, hidden_act="relu"), "fill-mask",
        ROBERTA_TOKENS, roberta_bytes,
    ),
    "prelayernorm-sparse": Case(
        bert(T.RobertaPreLayerNormForMaskedLM, T.RobertaPreLayerNormConfig, **ROBERTA), "sparse-embedding",
        ROBERTA_TOKENS, roberta_bytes, options=("--task", "sparse-embedding"),
    ),
    "prelayernorm-features": Case(
        bert(T.RobertaPreLayerNormModel, T.RobertaPreLayerNormConfig, **ROBERTA), "feature-extraction",
        SENTENCES | MEAN, roberta_bytes, pooling="mean",
    ),
    "xlm-roberta-xl": Case(
        bert(T.XLMRobertaXLForSequenceClassification, T.XLMRobertaXLConfig, **ROBERTA), "text-classification",
        ROBERTA_TOKENS, unigrams,
    ),
    "xlm-roberta-xl-tags": Case(
        bert(T.XLMRobertaXLForTokenClassification, T.XLMRobertaXLConfig, **ROBERTA, **TAGGED), "token-classification",
        ROBERTA_TOKENS, unigrams,
    ),
    "xlm-roberta-xl-answer": Case(
        bert(T.XLMRobertaXLForQuestionAnswering, T.XLMRobertaXLConfig, **ROBERTA, **ENDS), "question-answering",
        ROBERTA_TOKENS, unigrams,
    ),
    "xlm-roberta-xl-features": Case(
        bert(T.XLMRobertaXLModel, T.XLMRobertaXLConfig, **ROBERTA), "feature-extraction", SENTENCES | MEAN, unigrams,
        pooling="mean",
    ),
    "xlm-roberta-xl-mask": Case(
        bert(T.XLMRobertaXLForMaskedLM, T.XLMRobertaXLConfig, **ROBERTA, tie_word_embeddings=False), "fill-mask",
        ROBERTA_TOKENS, unigrams,
    ),
    "gpt2": Case(
        gpt2(scale_attn_by_inverse_layer_idx=True, n_inner=20, activation_function="relu"), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24, "no_repeat_ngram_size": 3}}, byte_pairs,
        exported=True,
    ),
    "gpt2-untied": Case(
        gpt2(scale_attn_weights=False, tie_word_embeddings=False), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, **BEAMS, "max_length": 40, "min_length": 6}}, byte_pairs,
    ),
    "llama": Case(
        llama(T.LlamaForCausalLM, T.LlamaConfig), "text-generation",
        {"generation_config.json": {"eos_token_id": [2, 40], "max_new_tokens": 12, "no_repeat_ngram_size": 3}}, begun,
    ),
    "llama-3": Case(
        llama(
            T.LlamaForCausalLM, T.LlamaConfig, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
            num_key_value_heads=1, rope=LLAMA3, hidden_act="gelu_new",
        ),
        "text-generation",
        {"generation_config.json": {"eos_token_id": 2, **BEAMS, "max_length": 40}}, byte_pairs,
        prepare=as_release_4_says,
    ),
    "llama-linear": Case(
        llama(T.LlamaForCausalLM, T.LlamaConfig, num_key_value_heads=4, rope={"rope_type": "linear", "factor": 3.0}),
        "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 30, "min_length": 25}}, byte_pairs,
    ),
    "mistral-window": Case(
        llama(T.MistralForCausalLM, T.MistralConfig, sliding_window=4, head_dim=6), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}, begun,
    ),
    "mistral": Case(
        llama(T.MistralForCausalLM, T.MistralConfig, sliding_window=None), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}, byte_pairs,
    ),
    "qwen2": Case(
        llama(T.Qwen2ForCausalLM, T.Qwen2Config, tie_word_embeddings=True, rope=YARN), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}, byte_pairs,
    ),
    "qwen2-windows": Case(
        llama(T.Qwen2ForCausalLM, T.Qwen2Config, use_sliding_window=True, sliding_window=3, max_window_layers=1),
        "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}, byte_pairs,
    ),
    "qwen3": Case(
        llama(T.Qwen3ForCausalLM, T.Qwen3Config, head_dim=6, tie_word_embeddings=True), "text-generation",
        {"generation_config.json": {"eos_token_id": [2, 30], "max_length": 24}}, byte_pairs, exported=True,
    ),
    "qwen3-biases": Case(
        llama(
            T.Qwen3ForCausalLM, T.Qwen3Config, head_dim=4, attention_bias=True,
            rope={**YARN, "attention_factor": 1.2, "truncate": False},
        ),
        "text-generation",
        {"generation_config.json": {"eos_token_id": 2, "max_length": 24}}, byte_pairs,
    ),
    "smollm3": Case(
        llama(
            T.SmolLM3ForCausalLM, T.SmolLM3Config, tie_word_embeddings=True, num_hidden_layers=4, attention_bias=True,
        ),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "smollm3-windows": Case(
        llama(
            T.SmolLM3ForCausalLM, T.SmolLM3Config, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=3,
            mlp_bias=True,
        ),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "olmo2": Case(llama(T.Olmo2ForCausalLM, T.Olmo2Config), "text-generation", CONTINUING, byte_pairs),
    "olmo2-biases": Case(
        llama(T.Olmo2ForCausalLM, T.Olmo2Config, attention_bias=True, tie_word_embeddings=True), "text-generation",
        CONTINUING, byte_pairs,
    ),
    "granite": Case(
        llama(
            T.GraniteForCausalLM, T.GraniteConfig, embedding_multiplier=1.7, attention_multiplier=0.6,
            residual_multiplier=0.8, logits_scaling=1.3, tie_word_embeddings=True, mlp_bias=True,
        ),
        "text-generation", CONTINUING, begun,
    ),
    "granite-untied": Case(
        llama(T.GraniteForCausalLM, T.GraniteConfig, attention_multiplier=0.5, attention_bias=True), "text-generation",
        CONTINUING, byte_pairs,
    ),
    "phi3": Case(
        llama(
            T.Phi3ForCausalLM, T.Phi3Config, sliding_window=5, rope={"partial_rotary_factor": 0.5}, parts=PHI3_PARTS,
        ),
        "text-generation", CONTINUING, begun,
    ),
    "phi3-whole": Case(
        llama(T.Phi3ForCausalLM, T.Phi3Config, num_key_value_heads=4, tie_word_embeddings=True, parts=PHI3_PARTS),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "gpt-neox-parallel": Case(
        neox(rope_parameters={"rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 0.5}),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "gpt-neox": Case(
        neox(
            use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, hidden_act="gelu_new",
            rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0},
        ),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "gptj": Case(gptj(), "text-generation", CONTINUING, byte_pairs),
    "gptj-whole": Case(
        gptj(rotary_dim=6, n_inner=20, activation_function="relu"), "text-generation",
        {"generation_config.json": {"eos_token_id": 2, **BEAMS, "max_length": 40}}, byte_pairs,
    ),
    "gemma3": Case(gemma3(), "text-generation", CONTINUING, begun),
    "gemma3-untied": Case(
        gemma3(
            tie_word_embeddings=False, attention_bias=True, query_pre_attn_scalar=11,
            layer_types=["full_attention", "sliding_attention", "full_attention"],
        ),
        "text-generation", CONTINUING, byte_pairs,
    ),
    "qwen3-features": Case(
        llama(T.Qwen3Model, T.Qwen3Config, head_dim=6, parts=read(LLAMA_PARTS)), "feature-extraction", SENTENCES | LAST,
        ended_bytes, pooling="last", exported=True,
    ),
    "qwen3-rank": Case(
        llama(
            T.Qwen3ForSequenceClassification, T.Qwen3Config, head_dim=6, **ONE_LABEL, pad_token_id=1,
            parts=read(LLAMA_PARTS),
        ),
        "text-classification", {}, ended_bytes,
    ),
    "qwen2-features": Case(
        llama(
            T.Qwen2Model, T.Qwen2Config, use_sliding_window=True, sliding_window=3, max_window_layers=1,
            parts=read(LLAMA_PARTS),
        ),
        "feature-extraction", SENTENCES | MEAN, byte_pairs, pooling="mean",
    ),
    "qwen2-around": Case(
        llama(T.Qwen2Model, T.Qwen2Config, is_causal=False, parts=read(LLAMA_PARTS)), "feature-extraction",
        SENTENCES | LAST, ended_bytes, pooling="last",
    ),
    "llama-classifier": Case(
        llama(T.LlamaForSequenceClassification, T.LlamaConfig, **LABELS, pad_token_id=1, parts=read(LLAMA_PARTS)),
        "text-classification", {}, begun,
    ),
    "mistral-features": Case(
        llama(T.MistralModel, T.MistralConfig, sliding_window=4, parts=read(LLAMA_PARTS)), "feature-extraction",
        SENTENCES | LAST, ended_bytes, pooling="last",
    ),
    "smollm3-classifier": Case(
        llama(
            T.SmolLM3ForSequenceClassification, T.SmolLM3Config, num_hidden_layers=4, **LABELS, pad_token_id=1,
            parts=read(LLAMA_PARTS),
        ),
        "text-classification", {}, byte_pairs,
    ),
    "olmo2-features": Case(
        llama(T.Olmo2Model, T.Olmo2Config, parts=read(LLAMA_PARTS)), "feature-extraction", SENTENCES | LAST,
        byte_pairs, pooling="last",
    ),
    "granite-features": Case(
        llama(
            T.GraniteModel, T.GraniteConfig, embedding_multiplier=1.7, residual_multiplier=0.8, logits_scaling=1.3,
            parts=read(LLAMA_PARTS),
        ),
        "feature-extraction", SENTENCES | LAST, byte_pairs, pooling="last",
    ),
    "phi3-classifier": Case(
        llama(T.Phi3ForSequenceClassification, T.Phi3Config, **LABELS, pad_token_id=1, parts=read(PHI3_PARTS)),
        "text-classification", {}, begun,
    ),
    "gpt-neox-classifier": Case(
        neox(
            T.GPTNeoXForSequenceClassification, pad_token_id=1, parts=read(NEOX_PARTS), **LABELS,
            rope_parameters={"rope_type": "default", "rope_theta": 30.0, "partial_rotary_factor": 0.5},
        ), "text-classification", {},
        byte_pairs,
    ),
    "gpt2-features": Case(
        gpt2(T.GPT2Model, parts=read(GPT2_PARTS)), "feature-extraction", SENTENCES | MEAN, byte_pairs, pooling="mean"
    ),
    "gpt2-classifier": Case(
        gpt2(T.GPT2ForSequenceClassification, **LABELS, pad_token_id=1, parts=read(GPT2_PARTS)),
        "text-classification", {}, byte_pairs,
    ),
    "gemma3-features": Case(
        gemma3(T.Gemma3TextModel, use_bidirectional_attention=True, sliding_window=4, parts=read(LLAMA_PARTS)),
        "feature-extraction", SENTENCES | MEAN, begun, pooling="mean",
    ),
    "gemma3-classifier": Case(
        gemma3(T.Gemma3TextForSequenceClassification, **LABELS, pad_token_id=1, parts=read(LLAMA_PARTS)),
        "text-classification", {}, begun,
    ),
    "bart": Case(
        bart(), "text2text-generation",
        {
            "generation_config.json": {
                "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, **BEAMS,
                "forced_bos_token_id": 0, "forced_eos_token_id": 2, "no_repeat_ngram_size": 3, "min_length": 4,
                "suppress_tokens": [5, 9], "begin_suppress_tokens": [11],
            }
        },
        roberta_bytes,
        exported=True,
    ),
    "bart-nli": Case(bart_classifier(**NLI), "text-classification", {}, roberta_bytes, exported=True),
    "bart-before": Case(
        Reference(lambda: T.MBartForConditionalGeneration(T.MBartConfig(**SEQUENCES, vocab_size=300)), BART_PARTS),
        "text2text-generation",
        {
            "generation_config.json": {
                "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 2, "max_length": 12,
            }
        },
        roberta_bytes,
        prepare=normalising_before,
    ),
    "marian": Case(marian(), "text2text-generation", MARIAN_GENERATION, prepare=sentence_pieces, exported=True),
    "marian-apart": Case(
        marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=700, scale_embedding=False),
        "text2text-generation",
        MARIAN_GENERATION,
        prepare=a_vocabulary_a_side,
    ),
    "mbart": Case(
        multilingual(T.MBartConfig, T.MBartForConditionalGeneration, decoder_start_token_id=271),
        "text2text-generation",
        {
            "generation_config.json": {**TRANSLATING, "decoder_start_token_id": 271, "num_beams": 3},
            "tokenizer_config.json": {"tokenizer_class": "MBartTokenizer", "src_lang": "en_XX"},
        },
        in_languages(*LANGUAGE_CODES),
        exported=True,
    ),
    "mbart-50": Case(
        multilingual(T.MBartConfig, T.MBartForConditionalGeneration, activation_function="relu"),
        "text2text-generation",
        {
            "generation_config.json": {**TRANSLATING, "forced_bos_token_id": 272, "forced_eos_token_id": 2},
            "tokenizer_config.json": {"tokenizer_class": "MBart50TokenizerFast", "src_lang": "fr_XX"},
        },
        in_languages(*LANGUAGE_CODES),
    ),
    "pegasus": Case(
        multilingual(T.PegasusConfig, T.PegasusForConditionalGeneration, decoder_start_token_id=1),
        "text2text-generation",
        {"generation_config.json": {**TRANSLATING, "decoder_start_token_id": 1, **BEAMS}},
        roberta_bytes,
    ),
    "m2m-100": Case(
        multilingual(T.M2M100Config, T.M2M100ForConditionalGeneration, vocab_size=400),
        "text2text-generation",
        {"generation_config.json": {**TRANSLATING, "num_beams": 2, "no_repeat_ngram_size": 2}},
        prepare=m2m_100_pieces,
    ),
    "nllb": Case(
        multilingual(T.M2M100Config, T.M2M100ForConditionalGeneration, scale_embedding=False),
        "text2text-generation",
        {
            "generation_config.json": {**TRANSLATING, "forced_bos_token_id": 271},
            "tokenizer_config.json": {"tokenizer_class": "NllbTokenizer", "legacy_behaviour": True},
        },
        in_languages("deu_Latn", "eng_Latn", "zho_Hans"),
    ),
    "t5": Case(
        t5(T.T5Config, T.T5ForConditionalGeneration, num_layers=3, num_decoder_layers=2), "text2text-generation",
        T5_GENERATION, ending, exported=True,
    ),
    "t5-1.1": Case(
        t5(T.T5Config, T.T5ForConditionalGeneration, feed_forward_proj="gated-gelu"), "text2text-generation",
        {"generation_config.json": {**T5_TOKENS, "max_length": 12, "no_repeat_ngram_size": 2}}, ending,
        prepare=as_published,
    ),
    "t5-silu": Case(
        t5(T.T5Config, T.T5ForConditionalGeneration, feed_forward_proj="gated-silu", tie_word_embeddings=False),
        "text2text-generation", T5_GENERATION, ending,
    ),
    "mt5": Case(
        t5(T.MT5Config, T.MT5ForConditionalGeneration, vocab_size=240, layer_norm_epsilon=1e-3), "text2text-generation",
        T5_GENERATION, prepare=spiece,
    ),
    "umt5": Case(
        t5(T.UMT5Config, T.UMT5ForConditionalGeneration, num_layers=3, num_decoder_layers=2), "text2text-generation",
        T5_GENERATION, ending,
    ),
    "trocr": Case(
        image_to_text(T.ViTConfig, {"image_size": (8, 12), "qkv_bias": False}, T.TrOCRConfig, SMALL_TROCR),
        "image-to-text",
        processor("ViTImageProcessor", 8, 12) | {"generation_config.json": IMAGE_TO_TEXT_TOKENS | BEAMS}, roberta_bytes,
        exported=True,
    ),
    "trocr-small": Case(
        image_to_text(T.DeiTConfig, {}, T.TrOCRConfig, {**SMALL_TROCR, "scale_embedding": True}), "image-to-text",
        processor("DeiTImageProcessor", 8, 8, do_center_crop=False) | IMAGE_TO_TEXT_RULES, roberta_bytes,
        options=("--image-size", "12x8"),
    ),
    "trocr-large": Case(
        image_to_text(
            T.ViTConfig, {"qkv_bias": False}, T.TrOCRConfig,
            {
                **SMALL_TROCR, "activation_function": "relu", "scale_embedding": True, "layernorm_embedding": False,
                "use_learned_position_embeddings": False, "tie_word_embeddings": False,
            },
        ),
        "image-to-text", processor("ViTImageProcessor", 8, 8) | IMAGE_TO_TEXT_RULES, roberta_bytes,
    ),
    "trocr-beit": Case(
        image_to_text(
            T.BeitConfig, {**OF_EACH_LAYER, "use_mean_pooling": False}, T.TrOCRConfig,
            {**SMALL_TROCR, "cross_attention_hidden_size": None},
        ),
        "image-to-text", processor("BeitImageProcessor", 8, 8) | IMAGE_TO_TEXT_RULES, roberta_bytes,
    ),
    "vit-gpt2": Case(
        image_to_text(
            T.ViTConfig, {}, T.GPT2Config,
            {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 48, "scale_attn_by_inverse_layer_idx": True},
            VIT_GPT2_PARTS,
        ),
        "image-to-text", processor("ViTImageProcessor", 8, 8) | IMAGE_TO_TEXT_RULES, byte_pairs,
    ),
    "dinov2-gpt2": Case(
        image_to_text(
            T.Dinov2Config, {"mlp_ratio": 2}, T.GPT2Config,
            {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 48, "tie_word_embeddings": False}, VIT_GPT2_PARTS,
        ),
        "image-to-text", processor("BitImageProcessor", 8, 8, **CROP) | IMAGE_TO_TEXT_RULES, byte_pairs,
    ),
    **pair(
        "clip",
        Case(
            towers(
                T.CLIPModel, T.CLIPConfig, {"eos_token_id": END, "hidden_act": "gelu"}, {"num_attention_heads": 4},
                projection_dim=10,
            ),
            "feature-extraction", processor("CLIPImageProcessor", 12, 12, crop_size=12), tower="vision", exported=True,
        ),
        Case(
            Reference(lambda: None), "feature-extraction",
            {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}},
            ended, tower="text",
        ),
    ),
    **pair(
        "chinese-clip",
        Case(
            towers(
                T.ChineseCLIPModel, T.ChineseCLIPConfig, {"vocab_size": 130, "hidden_act": "gelu_new"},
                {"patch_size": 6}, projection_dim=10,
            ),
            "feature-extraction", processor("ChineseCLIPImageProcessor", 12, 12, do_center_crop=False), tower="vision",
        ),
        Case(Reference(lambda: None), "feature-extraction", {}, pieces, tower="text"),
        BERT_PARTS,
    ),
    **pair(
        "siglip",
        Case(
            towers(
                T.SiglipModel, T.SiglipConfig, {"projection_size": 20, "max_position_embeddings": 28},
                {"layer_norm_eps": 1e-3}, SIGLIP_PARTS,
            ),
            "feature-extraction", processor("SiglipImageProcessor", 12, 12, resample=2), tower="vision",
        ),
        Case(
            Reference(lambda: None), "feature-extraction",
            {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "</s>"}},
            ended, tower="text",
        ),
    ),
    "wav2vec2": Case(speech(T.Wav2Vec2ForCTC), "automatic-speech-recognition", letters()),
    "wav2vec2-stable": Case(
        speech(T.Wav2Vec2ForCTC, **STABLE), "automatic-speech-recognition",
        {
            **letters(do_lower_case=True, word_delimiter_token="'"),
            "processor_config.json": {"feature_extractor": {"do_normalize": False, "sampling_rate": 8000}},
        },
    ),
    "wav2vec2-sounds": Case(
        speech(T.Wav2Vec2ForSequenceClassification, **STABLE, **LABELS), "audio-classification", letters(),
    ),
    "wav2vec2-features": Case(speech(T.Wav2Vec2Model), "feature-extraction", letters()),
    "hubert": Case(
        speech(T.HubertForCTC, T.HubertConfig, feat_proj_layer_norm=False), "automatic-speech-recognition", letters(),
    ),
    "hubert-sounds": Case(
        speech(T.HubertForSequenceClassification, T.HubertConfig, **LABELS), "audio-classification", letters(),
    ),
    "ast": Case(spectrogram(T.ASTForAudioClassification), "audio-classification", filter_bank()),
    "ast-features": Case(spectrogram(T.ASTModel), "feature-extraction", filter_bank(mean=-3.0, std=2.0)),
}  # fmt: skip


CHOICE = os.environ.get("CASES", "")
CHOSEN = {name: case for name, case in CASES.items() if name.startswith(tuple(CHOICE.split(",")))}
"""The cases of this run: all, or those whose names begin as the environment's CASES says, between commas."""

EXPORTED = [name for name, case in CHOSEN.items() if case.exported or CHOICE]
"""The chosen cases that are exported and served: of a choice, every one."""

READ = tuple(
    f"tests/samples/{name}.py" for name in ("checkpoints", "export_command", "export_m2m_100", "export_marian")
)


def checkpoint_of(name: str) -> Path:
    """Return the folder of a case's checkpoint."""
    name = CASES[name].pair or name
    return once(f"checkpoint-{name}", CASES[name].save, *READ)


def source_of(folder: Path, **options: Any) -> Source:
    """Return what the command would export of a folder; tracing it is tested elsewhere."""
    checkpoint = open_checkpoint(str(folder), None)
    return FAMILIES[checkpoint.config["model_type"]].source(checkpoint, ExportOptions("it", **options))


def source_of_case(name: str) -> Source:
    """Return what the command would export of a case, with its options."""
    given = _parser().parse_args([name, *CASES[name].options])
    source = source_of(checkpoint_of(name), image=given.image_size, task=given.task)
    return source.partner if CASES[name].pair and source.partner else source


def artifact_of(name: str) -> Path:
    """Return the folder of a case's artifact, which the command makes as users would."""
    exported = CASES[name].pair or name
    given = [checkpoint_of(name), "--name", exported, *CASES[exported].options]
    return once(f"family-{exported}", export(*given), *READ) / name
