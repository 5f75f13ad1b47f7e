"""What is carried to a machine with a GPU: packages, models without weights, packs; and the table of results.

`make gpu-kit-rehearsal` packs, unpacks and measures.
"""

import json
import tomllib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.gpu_kit import prepare, rows, weights, wheels
from contract.artifact import read_artifact
from tests.conftest import ROOT


def test_what_the_service_needs_is_carried_but_for_what_is_there():
    named = {package.partition("==")[0] for package in wheels.lacking()}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {canonicalize_name(Requirement(line).name) for line in listed}
    assert needed <= named | wheels.closure(wheels.PRESENT)
    assert not named & {"torch", "numpy", "onnx", "onnxruntime", "transformers", "regard-service"}
    assert all("==" in package for package in wheels.lacking())


@pytest.fixture(scope="module")
def filled(tmp_path_factory, artifacts):
    folder = tmp_path_factory.mktemp("carried")
    weights.strip(artifacts / "digits" / "1", folder / "stripped")
    weights.fill(folder / "stripped", folder / "digits" / "1")
    return folder


def test_a_model_without_its_large_weights_is_small_and_is_an_artifact_again(filled, artifacts):
    whole = (artifacts / "digits/1/weights.bin").stat().st_size
    assert sum(file.stat().st_size for file in (filled / "stripped").iterdir()) < whole / 3
    assert read_artifact(filled / "digits" / "1").manifest.name == "digits"


def test_drawn_weights_have_the_size_of_the_real_ones_and_small_tensors_are_the_same(filled, artifacts):
    real, drawn = (np.fromfile(root / "digits/1/weights.bin", np.uint8) for root in (artifacts, filled))
    large = 0
    for start, (length, kind) in weights.tensors(artifacts / "digits" / "1").items():
        before, after = (blob[start : start + length] for blob in (real, drawn))
        if length <= weights.CARRIED_BYTES:
            assert (before == after).all()
            continue
        large += 1
        before, after = (part.view(weights.DRAWN[kind]) for part in (before, after))
        assert not np.array_equal(before, after)
        assert after.std() == pytest.approx(before.std(), rel=0.1)
    assert large


def test_packs_are_no_larger_than_the_limit_and_each_lists_all(tmp_path):
    archives = []
    for name, size in (("a.tar", 900_000), ("b.tar", 500_000), ("c.tar", 300_000)):
        archives.append(tmp_path / name)
        archives[-1].write_bytes(bytes(size))
    prepare.packed(archives, tmp_path / "kit", 1 << 20)
    packs = sorted((tmp_path / "kit").iterdir())
    assert [pack.name for pack in packs] == ["1", "2"]
    for pack in packs:
        assert sum(file.stat().st_size for file in pack.iterdir()) <= 1 << 20
        assert json.loads((pack / "kit.json").read_text())["files"].keys() == {"a.tar", "b.tar", "c.tar"}
        assert {"unpack.py", "measure.py"} <= {file.name for file in pack.iterdir()}


def test_what_fits_no_pack_is_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(bytes(3 << 20))
    with pytest.raises(SystemExit, match=r"^a.tar: at most 2 MiB a pack, given 3.0 MiB$"):
        prepare.packed([tmp_path / "a.tar"], tmp_path / "kit", 2 << 20)


def test_weights_behind_a_branch_are_found(tmp_path):
    inner = helper.make_graph([], "inner", [], [], [external("inside", 4096)])
    node = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    graph = helper.make_graph([node], "outer", [], [], [external("outside", 0)])
    onnx.save(helper.make_model(graph), tmp_path / "one.onnx")
    assert weights.tensors(tmp_path) == {0: (64, TensorProto.FLOAT), 4096: (64, TensorProto.FLOAT)}


def external(name, offset):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[16], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", 64)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_figures_become_rows_and_parts_that_ended_early_are_said():
    figures = [{"what": "rate", "against": "PyTorch", "aim": "1x", "reached": "1.2x"}]
    parts = [{"part": "vit", "figures": figures, "ended": None, "seconds": 3}]
    parts.append({"part": "marian", "figures": [], "ended": "ended after 90 seconds", "seconds": 90.0})
    shown = rows.rows({"commit": "0123456789", "python": "3.12.1", "device": "cuda", "parts": parts})
    assert "| rate | PyTorch | 1x | 1.2x |" in shown
    assert shown.endswith("marian: ended after 90 seconds, 90.0 s.")


def test_the_parts_take_at_most_nine_minutes():
    from benchmarks.gpu_kit import measure, parts

    assert sum(measure.PARTS.values()) <= 540
    assert list(measure.PARTS) == list(parts.PARTS)
