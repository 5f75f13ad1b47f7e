"""The two towers that are bundled answer, as sources, what they were trained to answer."""

import torch
from tokenizers import Tokenizer

from export.bundled import SOURCES
from model.catalogue import bundled
from model.vocabularies import PAD
from tests.samples.attention_reference import assert_same
from train.data.coloured import coloured_scene, label_of
from train.data.handwritten_digits import scans
from train.recipes import clip


def test_sources_of_pictures_and_labels_have_the_scores_that_training_had():
    pictures = SOURCES["scenes-clip"]()
    labels = pictures.partner
    assert (pictures.name, labels.name) == ("scenes-clip", "scenes-clip-text")
    assert pictures.comparison == labels.comparison
    _, _, held, digits = scans()
    generator = torch.Generator().manual_seed(0)
    scenes = [coloured_scene(held, digits, generator) for _ in range(4)]
    texts = [label_of(one.things) for one in scenes]
    tokenizer = Tokenizer.from_str(labels.tokenizer)
    tokens = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(tokenizer.encode(text.title()).ids) for text in texts], batch_first=True, padding_value=PAD
    )
    assert torch.equal(tokens, clip.tokens_of(texts))
    with torch.no_grad():
        own = pictures.traced.observe(clip.bytes_of(scenes)).answer
        theirs = labels.traced.observe(tokens, tokens != PAD).answer
        cosines = torch.nn.functional.normalize(own, dim=1) @ torch.nn.functional.normalize(theirs, dim=1).T
    assert_same(pictures.comparison.scale * cosines, clip.scores_of(bundled("scenes-clip"), scenes, texts), 0.05)
