"""Fixtures of several tests of the export: sources, their graphs, and checkpoints."""

import dataclasses
import functools
import shutil

import onnx
import pytest
from torch import nn

from model.transformer import PRE_NORM, marian
from tests.samples.export_models import TRANSFORMER, classifier, sharpened, translator, written


@functools.cache
def source_named(name):
    if name == "pre-norm, untied":
        config = dataclasses.replace(TRANSFORMER, target_vocabulary=TRANSFORMER.vocabulary)
        head = nn.Linear(config.width, config.vocabulary, bias=False)
        return translator(sharpened(marian(config, PRE_NORM, scale=config.width**0.5, head=head)), config)
    return {"classifier": classifier, "translator": translator}[name]()


@pytest.fixture(scope="session", params=["classifier", "translator", "pre-norm, untied"])
def source(request):
    return source_named(request.param)


@pytest.fixture(scope="session")
def folders():
    """The folders of graphs that were written, by the id of their source. Pytest would make them anew for each file."""
    return {}


@pytest.fixture(scope="session")
def folder(source, folders, tmp_path_factory):
    if id(source) not in folders:
        folders[id(source)] = written(source, tmp_path_factory.mktemp("graphs"))
    return folders[id(source)]


@pytest.fixture(scope="session")
def graphs(source, folder):
    return {plan.role: onnx.load(folder / f"{plan.role}.onnx", load_external_data=False) for plan in source.plans}


@pytest.fixture
def checkpoint(families, tmp_path):
    """Copy a checkpoint of the given name, to be spoilt."""

    def copy(name):
        return shutil.copytree(families / "checkpoints" / name, tmp_path / "given")

    return copy
