import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from model.architectures.transformer import TransformerConfig, bart, marian, vaswani
from model.architectures.vit import ViTConfig, vit
from model.architectures.vit_variants import PLAIN
from model.catalogue import build
from model.parts.stacks import POST_NORM, StackSizes
from model.weights import WeightsError, load_weights, save_weights
from tests.samples.attention_reference import assert_same, sharpen

TRANSFORMER = TransformerConfig(13, length=8, width=8, encoder=StackSizes(1, 2, 12), decoder=StackSizes(1, 2, 12))
MODULES = {
    "vit": lambda: vit(ViTConfig((4, 4), 1, patch=(2, 2), width=8, layers=1, heads=2, hidden=12, classes=3)),
    "tied": lambda: vaswani(TRANSFORMER),
    "untied": lambda: marian(
        replace(TRANSFORMER, target_vocabulary=13), POST_NORM, scale=1.0, head=nn.Linear(8, 13, bias=False)
    ),
}


@pytest.fixture
def file(tmp_path):
    """A file that fits nn.Linear(2, 3)."""
    path = tmp_path / "model.safetensors"
    save_weights(nn.Linear(2, 3), path)
    return path


def values(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def refused(module, file, words):
    """Loading is refused with these words and changes nothing."""
    before = values(module)
    with pytest.raises(WeightsError) as refusal:
        load_weights(module, file)
    assert words in str(refusal.value)
    assert str(refusal.value).startswith(f"{file.name}: ")
    assert same(values(module), before)
    return str(refusal.value)


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_what_was_saved_is_loaded(make, tmp_path):
    saved, loaded = sharpen(make(), seed=1).float(), make()
    save_weights(saved, tmp_path / "model.safetensors")
    parameters = list(loaded.parameters())
    assert not same(values(loaded), values(saved))
    load_weights(loaded, tmp_path / "model.safetensors")
    assert same(values(loaded), values(saved))
    assert all(now is then for now, then in zip(loaded.parameters(), parameters, strict=True))
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_a_tied_matrix_is_saved_once_and_stays_tied_when_it_is_loaded(tmp_path):
    saved, loaded = sharpen(vaswani(TRANSFORMER), seed=1).float(), vaswani(TRANSFORMER)
    save_weights(saved, tmp_path / "model.safetensors")
    given = load_file(tmp_path / "model.safetensors")
    assert [name for name, tensor in given.items() if tensor.shape == (13, 8)] == ["source.tokens.weight"]
    load_weights(loaded, tmp_path / "model.safetensors")
    assert loaded.head.weight is loaded.source.tokens.weight is loaded.target.tokens.weight
    assert torch.equal(loaded.head.weight, saved.head.weight)


def test_a_transposed_parameter_survives_the_round_trip(tmp_path):
    saved, loaded = nn.Linear(2, 3), nn.Linear(2, 3)
    saved.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3).T)
    save_weights(saved, tmp_path / "model.safetensors")
    load_weights(loaded, tmp_path / "model.safetensors")
    assert torch.equal(loaded.weight, saved.weight)


def test_every_fault_is_listed_in_one_message(tmp_path):
    module, file = sharpen(MODULES["vit"]()).float(), tmp_path / "model.safetensors"
    save_weights(module, file)
    given = load_file(file)
    del given["head.bias"], given["class_token"]
    given |= {"pooler.weight": torch.zeros(1), "head.weight": torch.zeros(8, 3), "an.extra": torch.zeros(1)}
    given["positions.weight"] = given["positions.weight"][:-1].clone()
    save_file(given, file)
    message = refused(MODULES["vit"](), file, "missing")
    assert message == (
        "model.safetensors: missing class_token; missing head.bias; left over an.extra; left over pooler.weight; "
        "head.weight must be [3, 8], given [8, 3]; positions.weight must be [5, 8], given [4, 8]"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda given: given.pop("bias"), "missing bias"),
        (lambda given: given.update(scale=torch.zeros(1)), "left over scale"),
        (lambda given: given.update(weight=torch.zeros(2, 3)), "weight must be [3, 2], given [2, 3]"),
        (lambda given: given.update(weight=torch.zeros(3)), "weight must be [3, 2], given [3]"),
        (lambda given: given.update(bias=torch.zeros(1)), "bias must be [3], given [1]"),
    ],
)
def test_a_fault_alone_is_named_and_nothing_is_loaded(file, change, words):
    given = load_file(file)
    change(given)
    save_file(given, file)
    assert refused(nn.Linear(2, 3), file, words) == f"model.safetensors: {words}"


def test_a_tied_matrix_under_its_second_name_is_left_over(tmp_path):
    file, model = tmp_path / "model.safetensors", vaswani(TRANSFORMER)
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, file)
    refused(model, file, "left over head.weight; left over target.tokens.weight")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        *((lambda file, size=size: os.truncate(file, size), "") for size in (0, 7, 40)),
        (lambda file: os.truncate(file, file.stat().st_size - 1), ""),
        (lambda file: torch.save(nn.Linear(2, 3).state_dict(), file), ""),
        (lambda file: file.unlink(), ": No such file"),
        (lambda file: (file.unlink(), file.mkdir()), ""),
    ],
    ids=["empty", "cut at 7", "cut at 40", "cut by a byte", "a pickle under a better name", "not there", "a folder"],
)
def test_what_is_no_safetensors_is_refused(file, damage, words):
    damage(file)
    refused(nn.Linear(2, 3), file, f"cannot be read as safetensors{words}")


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "model.pth", "model.pkl", "model", "model.safetensors.pt"])
def test_a_pickle_is_refused_by_its_suffix_and_never_opened(tmp_path, name):
    file = tmp_path / name
    torch.save(nn.Linear(2, 3).state_dict(), file)
    given = file.suffix or "no suffix"
    refused(nn.Linear(2, 3), file, f"weights must be a .safetensors file, given {given}")


def test_weights_of_another_variant_are_refused(tmp_path):
    """Scaled or not, scores have no weights of their own: only what the file says tells the two from each other."""
    file = tmp_path / "model.safetensors"
    save_weights(build("digits-dot"), file, "digits-dot")
    load_weights(build("digits-dot"), file, "digits-dot")
    with pytest.raises(WeightsError, match="must be of digits-plain, given those of digits-dot"):
        load_weights(build("digits-plain"), file, "digits-plain")
    save_weights(build("digits-bilinear"), file)
    with pytest.raises(WeightsError, match=r"left over encoder\.blocks\.0\.attention\.score\.weight"):
        load_weights(build("digits-plain"), file, "digits-plain")


def test_what_is_learned_beside_parameters_is_saved(tmp_path):
    file, ours, theirs = tmp_path / "model.safetensors", build("digits-re-attention"), build("digits-re-attention")
    ours.encoder.blocks[1].attention.select.norm.running_mean += 3
    save_weights(ours, file)
    load_weights(theirs, file)
    assert_same(theirs.encoder.blocks[1].attention.select.norm.running_mean, torch.full((PLAIN.heads,), 3.0), 1e-6)


def test_whole_numbers_are_no_weights(file):
    save_file({name: tensor.to(torch.int8) for name, tensor in load_file(file).items()}, file)
    with pytest.raises(WeightsError, match="bias must hold floating-point numbers, given int8; weight must hold"):
        load_weights(nn.Linear(2, 3), file)


@pytest.mark.parametrize("compose", [vaswani, lambda config: bart(config, POST_NORM, scale=1.0)])
def test_a_vocabulary_of_the_targets_own_is_refused_where_both_sides_share_one(compose):
    with pytest.raises(ValueError, match="target_vocabulary: must be None, since both sides share one, given 50"):
        compose(replace(TRANSFORMER, target_vocabulary=50))
