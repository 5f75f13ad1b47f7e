"""Fixtures of several tests of the export: sources, their graphs, and checkpoints."""

import dataclasses
import functools
import shutil

import onnx
import pytest
import torch
from torch import nn

from model.architectures.transformer import marian
from model.parts.stacks import PRE_NORM
from tests.samples.export_models import TRANSFORMER, classifier, sharpened, translator, written
from tests.samples.exports import once
from tests.samples.traces import traces_kept


@pytest.fixture(autouse=True)
def _traces_kept():
    with traces_kept():
        yield


@functools.cache
def source_named(name):
    torch.manual_seed(0)  # every process that tests run in has the same weights, since one of them writes the graphs
    if name == "pre-norm, untied":
        config = dataclasses.replace(TRANSFORMER, target_vocabulary=TRANSFORMER.vocabulary)
        head = nn.Linear(config.width, config.vocabulary, bias=False)
        return translator(sharpened(marian(config, PRE_NORM, scale=config.width**0.5, head=head)), config)
    return {"classifier": classifier, "translator": translator}[name]()


VARIANT = pytest.param("pre-norm, untied", marks=pytest.mark.families)  # takes a minute


@pytest.fixture(scope="session", params=["classifier", "translator", VARIANT])
def source_name(request):
    return request.param


@pytest.fixture(scope="session")
def source(source_name):
    return source_named(source_name)


@pytest.fixture(scope="session")
def folder(source, source_name):
    """The folder of the graphs of a source."""
    return once(f"graphs-{source_name}", lambda folder: written(source, folder))


@pytest.fixture(scope="session")
def graphs(source, folder):
    return {plan.role: onnx.load(folder / f"{plan.role}.onnx", load_external_data=False) for plan in source.plans}


@pytest.fixture
def checkpoint(checkpoints, tmp_path):
    """Copy a checkpoint of the given name, to be spoilt."""

    def copy(name):
        return shutil.copytree(checkpoints(name), tmp_path / "given")

    return copy


@pytest.fixture
def saved(tmp_path):
    """Write a checkpoint of the given name, which is not exported."""
    from tests.samples.checkpoints import CASES  # needs the reference libraries, which take seconds to import

    def save(name):
        CASES[name].save(tmp_path / name)
        return tmp_path / name

    return save
