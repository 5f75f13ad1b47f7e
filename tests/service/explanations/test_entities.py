"""Entities by the rules of the reference library, whatever the probabilities of labels are."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast, TokenClassificationPipeline
from transformers.pipelines.token_classification import AggregationStrategy

from service.explanations.entities import find_entities
from service.inputs.tokenization import TextTokenizer
from tests.samples.checkpoints import pieces, roberta_bytes, unigrams, words_of_mpnet
from tests.samples.odd_texts import fifty

TOKENIZERS = {"word pieces": pieces, "bytes": roberta_bytes, "unigrams": unigrams, "pieces of mpnet": words_of_mpnet}
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC", "I-MISC", "B-one-two", "I-one-two")
LIMIT = 64


@pytest.fixture(scope="module", params=TOKENIZERS)
def both(request, tmp_path_factory):
    """Return our tokenizer, and the reference library's pipeline without a model."""
    made = TOKENIZERS[request.param]()
    made.no_padding()
    made.no_truncation()
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(file))
    ours = TextTokenizer(SimpleNamespace(path=lambda name: file, to_load=lambda name: file), file.name, LIMIT)
    unknown = "<unk>" if made.token_to_id("[UNK]") is None else "[UNK]"
    theirs = TokenClassificationPipeline.__new__(TokenClassificationPipeline)
    theirs.tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token=unknown)
    theirs.model = SimpleNamespace(config=SimpleNamespace(id2label=dict(enumerate(LABELS))))
    return ours, theirs


def wanted(theirs, text, chances, strategy, ignored):
    encoded = theirs.tokenizer(
        text, return_special_tokens_mask=True, return_offsets_mapping=True, truncation=True, max_length=LIMIT
    )
    strategy = AggregationStrategy[strategy.upper()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = theirs.gather_pre_entities(
            text, np.array(encoded.input_ids), chances, np.array(encoded.offset_mapping),
            np.array(encoded.special_tokens_mask), strategy,
        )  # fmt: skip
        found = theirs.aggregate(before, strategy)
    kind = "entity" if strategy == AggregationStrategy.NONE else "entity_group"
    return [
        (one[kind], one["start"], one["end"], one["word"], pytest.approx(float(one["score"]), abs=1e-12))
        for one in found
        if one[kind] not in ignored
    ]


@pytest.mark.parametrize("ignored", [(), ("O", "PER", "B-LOC")])
@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
def test_entities_of_fifty_texts_are_those_of_the_reference_library(both, strategy, ignored):
    ours, theirs = both
    rng, labels = np.random.default_rng(0), set()
    for text in fifty():
        tokens = ours.encode(text, truncate=True)
        chances = rng.dirichlet(np.full(len(LABELS), 0.3), len(tokens))
        found = find_entities(text, tokens, chances, LABELS, ours, strategy, ignored)
        shown = [(one.label, *one.span, one.word, one.probability) for one in found]
        assert shown == wanted(theirs, text, chances, strategy, ignored)
        for entity in found:
            assert (tokens[entity.tokens[0]].span[0], tokens[entity.tokens[-1]].span[1]) == entity.span
            assert strategy != "none" or LABELS[entity.index] == entity.label
            assert LABELS[entity.index].split("-", 1)[-1] == entity.label or strategy == "none"
        labels |= {one.label for one in found}
    assert len(labels) >= 3


def test_an_entity_has_the_label_of_its_first_word(both):
    ours, _ = both
    tokens = ours.encode("the cat sat")
    chances = np.eye(len(LABELS))[[LABELS.index("B-PER"), *[LABELS.index("I-PER")] * (len(tokens) - 1)]]
    chances[1] = chances[0]
    (one,) = find_entities("the cat sat", tokens, chances, LABELS, ours, "simple", ())
    assert (one.label, LABELS[one.index], one.probability) == ("PER", "B-PER", 1.0)
    assert one.tokens == tuple(range(1, len(tokens) - 1))
