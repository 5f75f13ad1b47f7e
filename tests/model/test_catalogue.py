import subprocess
import sys

import pytest
import torch
from torch import nn

from model.architectures.captioner import CAPTIONER_SIZES
from model.architectures.convolutional import CONVOLUTIONAL_SIZES
from model.architectures.detector import DETECTOR_SIZES
from model.architectures.gpt import GPT_SIZES
from model.architectures.graph_transformer_network import GRAPH_TRANSFORMER_NETWORK_SIZES
from model.architectures.graphormer import GRAPHORMER_SIZES
from model.architectures.recurrent import RECURRENT_SIZES
from model.architectures.speech_transformer import SPEECH_TRANSFORMER_SIZES
from model.architectures.swin import SWIN_SIZES
from model.architectures.swin_v2 import SWIN_V2_SIZES
from model.architectures.tera import TERA_SIZES
from model.architectures.text_encoder import TEXT_ENCODER_SIZES
from model.architectures.transformer import TRANSFORMER_SIZES
from model.architectures.two_towers import TWO_TOWERS_SIZES
from model.architectures.vit import VIT_SIZES
from model.architectures.vit_variants import PLAIN, VARIANTS
from model.catalogue import CATALOGUE, build, bundled
from model.vocabularies import DATE_TAGS, VOCABULARY, WORD_SPECIALS, WORDS
from model.weights import WeightsError
from tests.conftest import ROOT
from train.data.handwritten_digits import pixels, scans

PARAMETERS = {
    "vit_b_16": 86_567_656,
    "vit_l_16": 304_326_632,
    "vit_h_14": 632_045_800,
    "swin_t": 28_288_354,  # as in torchvision
    "swin_v2_t": 28_347_154,  # torchvision's 28 351 570, but for the 4 416 numbers of biases of keys, which are 0 there
    "scenes-swin": 301_996,
    "scenes-clip": 579_713,
    "digits": 455_050,
    "digits-dino": 454_080,
    "scenes-dino": 463_200,
    "transformer_base": 63_082_496,
    "transformer_big": 214_245_376,
    "dates": 1_398_656,
    "dates-mlm": 633_932,
    "dates-clm": 616_960,
    "dates-tags": 352_613,
    "dates-rank": 633_985,
    "digits-plain": 78_794,
    "digits-dot": 78_794,
    "digits-additive": 78_986,
    "digits-bilinear": 78_770,
    "digits-hard": 78_794,
    "digits-re-attention": 78_938,
    "digits-parallel": 78_794,
    "digits-layer-scale": 79_178,
    "digits-macaron": 79_370,
    "digits-branchformer": 78_974,
    "digits-e-branchformer": 78_410,
    "digits-axial": 78_782,
    "digits-sinusoidal": 79_030,
    "digits-no-positions": 79_030,
    "dates-bilinear": 737_296,
    "captions-soft": 293_349,
    "captions-hard": 293_349,
    "scenes-detr": 652_119,
    "graphs-graphormer": 13_980,
    "graphs-gtn": 1452,
    "spoken-digits": 587_408,
    "spoken-tera": 339_648,
    "dates-recurrent": 593_163,
    "dates-plain": 594_755,
    "dates-convolutional": 742_443,
}

MAPS = {  # how many, with how many heads each
    "vit_b_16": (12, 12),
    "vit_l_16": (24, 16),
    "vit_h_14": (32, 16),
    "swin_t": (12, {3, 6, 12, 24}),
    "swin_v2_t": (12, {3, 6, 12, 24}),
    "scenes-swin": (4, {3, 6}),
    "scenes-clip": (4, 4),
    "digits": (4, 4),
    "digits-dino": (4, 4),
    "scenes-dino": (4, 4),
    "transformer_base": (3 * 6, 8),
    "transformer_big": (3 * 6, 16),
    "dates": (3 * 3, 4),
    "dates-mlm": (3, 4),
    "dates-clm": (3, 4),
    "dates-tags": (3, 4),
    "dates-rank": (3, 4),
    **dict.fromkeys(VARIANTS, (6, 4)),
    "digits-axial": (2 * 6, 4),
    "captions-soft": (1, 1),
    "captions-hard": (1, 1),
    "scenes-detr": (2 + 2 * 3, 4),
    "graphs-graphormer": (2, 4),
    "graphs-gtn": (1, 4),
    "spoken-digits": (2 * 2 + 2 + 2 * 2, {8, 4}),
    "spoken-tera": (3, 4),
    "dates-bilinear": (3 * 2, 4),
    "dates-recurrent": (1, 1),
    "dates-plain": (0, set()),
    "dates-convolutional": (3, 1),
}
LENGTHS = {"transformer_base": 512, "transformer_big": 512, "dates": 96, "dates-bilinear": 96}
ALIGNING = {"dates-recurrent": (96, 16), "dates-plain": (96, 16), "dates-convolutional": (96, 96)}
"""The most tokens of a source and a target."""
SWINS = SWIN_SIZES | SWIN_V2_SIZES
FRAMES = (1, 40, 300)
"""Of log-mel, of models that hear."""
TEXTS = {"dates-mlm": 96, "dates-clm": 96, "dates-tags": 96, "dates-rank": 96}


def test_the_tables_of_this_file_list_every_model():
    assert CATALOGUE.keys() == PARAMETERS.keys() == MAPS.keys()
    assert TRANSFORMER_SIZES.keys() == LENGTHS.keys()
    assert RECURRENT_SIZES.keys() | CONVOLUTIONAL_SIZES.keys() == ALIGNING.keys()
    assert TEXT_ENCODER_SIZES.keys() | GPT_SIZES.keys() == TEXTS.keys()


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_a_model_has_its_number_of_parameters(name, count):
    with torch.device("meta"):  # sizes without the memory
        model = build(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize(("name", "published"), [("transformer_base", 65e6), ("transformer_big", 213e6)])
def test_base_and_big_have_the_papers_number_of_parameters_within_three_percent(name, published):
    """Vaswani et al. 2017, table 3; section 5.1 has about 37000 shared tokens."""
    assert PARAMETERS[name] == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize("name", MAPS)
def test_a_model_takes_its_largest_input_and_has_its_layers_and_heads(name):
    with torch.device("meta"):
        model = build(name)
        if name in LENGTHS:
            longest = torch.zeros(1, LENGTHS[name], dtype=torch.long)
            assert model.source.positions.table.shape[0] == LENGTHS[name]
            logits, maps = model(longest, longest == 0, longest)
            assert logits.shape == (1, LENGTHS[name], TRANSFORMER_SIZES[name].vocabulary)
        elif name in TEXTS:
            longest = torch.zeros(1, TEXTS[name], dtype=torch.long)
            asked = {"dates-mlm": (longest == 0, None, longest), "dates-tags": (longest == 0,)}
            asked["dates-rank"] = (longest == 0, longest)
            assert model.embed.positions.weight.shape[0] == TEXTS[name]
            logits, maps = model(longest, *asked.get(name, ()))
            answers = {"dates-tags": (TEXTS[name], len(DATE_TAGS)), "dates-rank": (1,)}
            assert logits.shape == (1, *answers.get(name, (TEXTS[name], model.embed.tokens.num_embeddings)))
        elif name in ALIGNING:
            source, target = (torch.zeros(1, length, dtype=torch.long) for length in ALIGNING[name])
            logits, maps = model(source, source == 0, target)
            assert logits.shape == (1, target.shape[1], len(VOCABULARY))
        elif name.startswith("captions"):
            config = CAPTIONER_SIZES["captions"]
            target = torch.zeros(1, config.decoder.target_length, dtype=torch.long)
            logits, maps = model(torch.zeros(1, config.channels, *config.image), None, target)
            assert logits.shape == (1, target.shape[1], len(WORD_SPECIALS) + len(WORDS))
        elif name in DETECTOR_SIZES:
            config = DETECTOR_SIZES[name]
            logits, boxes, maps = model(torch.zeros(1, config.channels, *config.image))
            assert (logits.shape, boxes.shape) == ((1, config.objects, config.classes + 1), (1, config.objects, 4))
        elif name in SPEECH_TRANSFORMER_SIZES:
            config = SPEECH_TRANSFORMER_SIZES[name]
            target = torch.zeros(1, config.length, dtype=torch.long)
            logits, maps = model(torch.zeros(FRAMES), target)
            assert logits.shape == (1, config.length, len(WORD_SPECIALS) + len(WORDS))
        elif name in TERA_SIZES:
            embeddings, maps = model(torch.zeros(FRAMES))
            assert embeddings.shape == (1, TERA_SIZES[name].width)
        elif name in TWO_TOWERS_SIZES:
            config = TWO_TOWERS_SIZES[name]
            longest = torch.zeros(1, config.text.length, dtype=torch.long)
            pixels = torch.zeros(1, config.image.channels, *config.image.image)
            assert model(pixels, longest, longest == 0).shape == (1, 1)
            vectors, maps = model.image(pixels)
            assert vectors.shape == model.text(longest, longest == 0)[0].shape == (1, config.outputs)
        elif name in GRAPHORMER_SIZES | GRAPH_TRANSFORMER_NETWORK_SIZES:
            config = (GRAPHORMER_SIZES | GRAPH_TRANSFORMER_NETWORK_SIZES)[name]
            nodes = torch.zeros(1, 128, dtype=torch.long)
            logits, maps = model(nodes, torch.zeros(1, config.edge_types, 128, 128, dtype=torch.bool), nodes == 0)
            assert logits.shape == (1, config.classes)
        elif name in SWINS:
            config = SWINS[name]
            logits, maps = model(torch.zeros(1, config.channels, *config.image))
            assert logits.shape == (1, config.classes)
        else:
            config = PLAIN if name in VARIANTS else VIT_SIZES["digits" if name == "digits-dino" else name]
            logits, maps = model(torch.zeros(1, config.channels, *config.image))
            assert logits.shape == (1, config.width if name.endswith("-dino") else config.classes)
    layers, heads = MAPS[name]
    assert len(maps) == layers
    # windows have an axis before that of heads
    assert {found.shape[-3] for found in maps.values()} == (heads if isinstance(heads, set) else {heads})


@pytest.mark.parametrize("name", ["digits", "digits-dino", "dates", "dates-mlm", "dates-clm"])
def test_a_model_is_built_afresh_in_inference_mode_and_in_the_default_type(name):
    one, other = build(name), build(name)
    assert isinstance(one, nn.Module)
    assert not any(module.training for module in one.modules())
    assert {parameter.dtype for parameter in one.parameters()} == {torch.float32}
    assert not {id(parameter) for parameter in one.parameters()} & {id(parameter) for parameter in other.parameters()}


@pytest.mark.parametrize("load", [build, bundled])
@pytest.mark.parametrize("name", ["vit_b_17", "", "Digits"])
def test_an_unknown_name_is_refused_with_the_names_there_are(load, name):
    names = ", ".join(sorted(PARAMETERS))
    with pytest.raises(ValueError, match=f"^model: must be one of {names}, given '{name}'$"):
        load(name)


def test_a_model_without_trained_weights_cannot_be_had_with_them():
    with torch.device("meta"), pytest.raises(WeightsError, match=r"model\.safetensors: cannot be read"):
        bundled("vit_b_16")


def test_the_bundled_digits_read_the_held_out_scans():
    model = bundled("digits")
    assert not any(module.training for module in model.modules())
    _, _, held, labels = scans()
    with torch.no_grad():
        right = (model(pixels(held))[0].argmax(1) == labels).double().mean().item()
    assert right >= 0.985


def test_definitions_need_neither_data_sets_nor_recipes():
    code = (
        "import sys, model.catalogue, model.methods.explanations; print({'train', 'sklearn', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
