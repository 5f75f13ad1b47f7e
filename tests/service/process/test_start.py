"""Starting: what is wrong is said in one line, with an exit status of its own, and no port opens."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from service.repository.loading.load import load
from service.settings import Settings
from tests.conftest import COLD, ROOT, start
from tests.samples.changed_artifacts import edit, put_graph


def failure(artifacts, **settings):
    """Start a service that cannot; returns its exit status and what it said."""
    process = start(artifacts, port=0, program=COLD, **settings)
    said, _ = process.communicate(timeout=30)
    assert "listening" not in said
    assert "Traceback" not in said
    return process.returncode, said


def last_line(said):
    return json.loads(said.strip().splitlines()[-1])


def fault(artifacts):
    """Return the one error with which artifacts cannot be loaded."""
    with pytest.raises(ExceptionGroup) as faults:
        load(Settings(artifacts=artifacts))
    (found,) = faults.value.exceptions
    return found


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1  # one bit: onnxruntime would load it without a word
    file.write_bytes(data)


def test_a_corrupt_file_ends_the_start_with_its_name_and_the_reason(light_copy):
    flip_a_bit(light_copy / "digits/1/attention.onnx")
    status, said = failure(light_copy)
    assert status == 3
    assert last_line(said)["file"] == str(light_copy / "digits/1/attention.onnx")
    assert "sha256" in last_line(said)["reason"]


def cut_short(file):
    file.write_bytes(file.read_bytes()[:1000])


def with_another_task(file):
    file.write_text(file.read_text().replace('"task": "text2text-generation"', '"task": "cooking"'))


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        *((f"digits/1/{name}", flip_a_bit, "sha256") for name in ("predict.onnx", "attention.onnx", "weights.bin")),
        *((f"digits/1/{name}", Path.unlink, "missing") for name in ("predict.onnx", "weights.bin")),
        ("digits/1/manifest.json", Path.unlink, "cannot be read: No such file"),
        ("dates/1/decode.onnx", cut_short, "given 1000"),
        ("dates/1/manifest.json", with_another_task, "task"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(light_copy, name, change, reason):
    change(light_copy / name)
    error = fault(light_copy)
    assert error.file == light_copy / name
    assert reason in error.reason


def test_an_artifact_that_lacks_a_graph_of_its_task_is_refused(light_copy):
    folder = light_copy / "digits/1"
    edit(folder, lambda manifest: manifest["graphs"].pop("attention"))
    (folder / "attention.onnx").unlink()
    assert fault(light_copy).reason == "this task needs graphs for attention, given none"


def test_a_folder_without_artifacts_says_how_to_make_them(tmp_path):
    status, said = failure(tmp_path)
    assert status == 3
    assert "python -m export" in last_line(said)["reason"]
    assert "python -m export" in fault(tmp_path / "absent").reason


def test_a_service_that_is_told_to_use_cuda_where_there_is_none_does_not_start(light):
    status, said = failure(light, device="cuda")
    if status == 0:
        pytest.skip("this machine has CUDA")
    assert status == 4
    assert "CUDAExecutionProvider" in last_line(said)["reason"]


def test_every_wrong_setting_is_listed_at_once(light):
    status, said = failure(light, device="toaster", max_inputs="many", batch_tokens="-1", max_puts=3)
    assert status == 2
    for words in ("REGARD_DEVICE: ", "REGARD_MAX_INPUTS: ", "REGARD_BATCH_TOKENS: ", "REGARD_MAX_PUTS: is no setting"):
        assert words in said


def test_a_model_that_cannot_run_ends_the_service_instead_of_becoming_ready(light, tmp_path):
    """A stand-in graph of the same ports, whose logits are not a number if all pixels are zero."""
    folder = shutil.copytree(light / "digits/1", tmp_path / "digits/1")
    zeros = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1, 10], [0.0] * 10)
    axes = onnx.helper.make_tensor("value", onnx.TensorProto.INT64, [2], [1, 2])
    nodes = [
        onnx.helper.make_node("Constant", [], ["zeros"], value=zeros),
        onnx.helper.make_node("Constant", [], ["axes"], value=axes),
        onnx.helper.make_node("Cast", ["pixels"], ["bright"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("ReduceMax", ["bright", "axes"], ["brightest"], keepdims=0),
        onnx.helper.make_node("Div", ["zeros", "brightest"], ["logits"]),
    ]
    put_graph(folder, "predict", nodes)
    process = start(tmp_path, port=0)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 6
    assert last_line(said)["reason"] == "digits/predict: logits is not finite on an input of zeros"
    assert '"event":"ready"' not in said


def test_what_a_step_of_the_start_does_not_need_is_not_imported_before_it():
    steps = ("process.workers", "numpy"), ("process.start", "onnxruntime"), ("process.serving", "fastapi")
    code = "import sys\n" + "\n".join(
        f"import service.{module}; assert {later!r} not in sys.modules, {module!r}" for module, later in steps
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_interpreter_without_the_packages_says_which_one_has_them(tmp_path):
    (tmp_path / "structlog.py").write_text("raise ModuleNotFoundError(name='structlog')")
    done = subprocess.run(
        [sys.executable, "-m", "service"], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(tmp_path)}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"structlog is not installed for {sys.executable}. ")
    assert "make serve" in done.stderr


def test_a_package_that_cannot_be_imported_is_named(light, tmp_path, monkeypatch):
    (tmp_path / "fastapi.py").write_text("import absent")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status, said = failure(light)
    assert status == 2
    assert last_line(said)["event"] == "a package is missing or broken; install the service anew"
    assert last_line(said)["reason"] == "No module named 'absent'"


def test_all_faults_of_artifacts_are_reported_at_once(light_copy):
    for name in ("digits", "dates"):
        (light_copy / name / "1" / "attention.onnx").write_bytes(b"")
    process = start(light_copy, port=0)
    said, _ = process.communicate(timeout=30)
    files = [line["file"] for line in map(json.loads, said.splitlines()) if line["event"] == "artifact cannot be used"]
    assert process.returncode == 3
    assert files == [str(light_copy / name / "1" / "attention.onnx") for name in ("dates", "digits")]


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["-h"], 0), (["--port", "9001"], 2)])
def test_words_are_no_settings(words, status):
    done = subprocess.run(
        [sys.executable, "-m", "service", *words], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == status
    assert "docs/settings.md" in (done.stderr if status else done.stdout)


def test_a_process_leaves_with_its_last_lines_and_without_the_end_of_the_interpreter():
    code = "import atexit; from service.__main__ import leave; atexit.register(print, 'ended'); print('said'); leave(3)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")
