"""What the images hold, what they do not, and how large they are."""

import json
import re

import pytest

from service import VERSION
from tests.containers import images
from tests.containers.podman import Container, exists, inspect, run
from tests.samples.checkpoints import CASES

MEGABYTE = 10**6
# Python that prints what an image must not have, run in it as root, to see all of it
FORBIDDEN = """
import importlib.util, json, os, shutil, stat, sys
found = [name for name in ("torch", "onnx", "onnxscript", "pip", "setuptools", "huggingface_hub", "ensurepip")
         if importlib.util.find_spec(name)]
found += [name for name in ("pip", "pip3", "gcc", "cc", "c++", "ld", "make", "git", "curl", "wget")
          if shutil.which(name)]
writable = []
installers = {"pip/__init__.py", "ensurepip/__init__.py"}
for folder, folders, files in os.walk("/"):
    folders[:] = [one for one in folders if os.path.join(folder, one) not in ("/proc", "/sys", "/dev")]
    for name in files + folders:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode) and mode & 0o6000: found.append(path)
        if not stat.S_ISLNK(mode) and mode & 0o002: writable.append(path)
        if "/".join(path.split("/")[-2:]) in installers: found.append(path)
print(json.dumps([found, sorted(writable)]))
"""


def look(image, program, *options):
    return json.loads(run("podman", "run", "--rm", "--network=none", "--user=0", "--entrypoint=python3",
                          "--health-interval=disable", *options, image, "-c", program))  # fmt: skip


def test_the_service_has_no_pytorch_no_installer_no_compiler_and_nothing_that_changes_its_user(cpu):
    found, writable = look(cpu, FORBIDDEN)
    assert found == []
    assert {path for path in writable if not path.startswith("/run")} == {"/tmp", "/var/tmp"}


def test_the_service_has_at_most_450_megabytes(cpu):
    size = inspect("image", cpu)["Size"]
    print(f"cpu: {size / MEGABYTE:.0f} MB")
    assert size <= 450 * MEGABYTE


def test_the_service_holds_the_bundled_models_and_its_licence(cpu):
    program = "import json, os; print(json.dumps([sorted(os.listdir(one)) for one in ('/artifacts', '/licenses')]))"
    assert look(cpu, program) == [["dates", "digits"], ["LICENSE"]]


@pytest.fixture(scope="module")
def anew():
    """What podman knows of two images for which every step ran again. Their stages, which have no name, go too."""
    found, before = [], nameless()
    for turn in range(2):
        tag = f"localhost/regard:same-{turn}"
        try:
            images.build("cpu", tag, "--no-cache", "--timestamp=0")
            found.append(inspect("image", tag))
        finally:
            run("podman", "rmi", "--force", tag, check=False)
    if made := nameless() - before:
        run("podman", "rmi", "--force", *made, check=False)  # those that went with another are not known any more
    return found


def nameless():
    return set(run("podman", "images", "--quiet", "--filter=dangling=true").split())


def test_the_same_source_gives_the_same_image(anew):
    """Its layers, bit for bit."""
    first, second = (one["RootFS"]["Layers"] for one in anew)
    assert first == second
    assert len(first) > 1


def test_the_labels_say_what_it_is(anew):
    """Of an image that is new: buildah 1.28 takes labels from its cache, although their arguments are others."""
    labels = anew[0]["Labels"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert re.fullmatch("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


@pytest.fixture(scope="module")
def exporting():
    """The options that build what exports, and the release of Debian that they are for."""
    if not (found := images.torch_wheels()):
        pytest.skip("TORCH_WHEELS names no folder with a wheel of PyTorch's CPU build for Python 3.11 or 3.13")
    folder, suite = found
    return {"suite": suite, "options": (f"--build-context=wheels={folder}",)}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder that holds a small checkpoint, `mine`."""
    folder = tmp_path_factory.mktemp("checkpoint")
    CASES["vit"].save(folder / "mine")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def built(target, exporting, *more):
    tag = f"localhost/regard-{target}:smoke"
    return images.build(target, tag, *exporting["options"], *more, suite=exporting["suite"])


def test_the_exporter_has_at_most_one_and_a_half_gigabytes_and_runs_without_a_network(exporting):
    image = built("export", exporting)
    size = inspect("image", image)["Size"]
    print(f"export: {size / MEGABYTE:.0f} MB")
    assert size <= 1500 * MEGABYTE
    listed = run("podman", "run", "--rm", "--network=none", "--read-only", image, "--list")
    assert "digits" in listed


def test_artifacts_that_an_image_makes_are_those_of_the_repository(exporting):
    """All but the manifests, which hold versions and what was measured."""
    image = built("artifacts", exporting)
    assert inspect("image", image)["Size"] <= 20 * MEGABYTE
    here = run("sh", "-c", "cd model/artifacts && find . -type f ! -name manifest.json | sort | xargs sha256sum")
    mounted = ("--mount", f"type=image,source={image},destination=/mounted", "--workdir=/mounted")
    there = run("podman", "run", "--rm", *mounted, images.base("run"), "sh", "-c",
                "find . -type f ! -name manifest.json ! -path './licenses/*' | sort | xargs sha256sum")  # fmt: skip
    assert here == there


def test_a_checkpoint_of_ones_own_is_served_by_an_image_that_holds_it(exporting, checkpoint):
    given = (f"--build-context=checkpoint={checkpoint}", "--build-arg=MODELS=/checkpoint/mine")
    image = built("with-models", exporting, *given)
    with Container(image, options=["--network=none"]) as container:
        assert container.wait_for("ready")["models"] == ["mine"]


def test_an_init_container_can_copy_models_out_of_its_image(exporting, tmp_path):
    image = built("artifacts-init", exporting)
    run("podman", "run", "--rm", "--user=0", f"--volume={tmp_path}:/to", image, "cp", "-r", "/models/.", "/to")
    assert {path.name for path in tmp_path.iterdir()} == {"digits", "dates"}


def test_the_gpu_image_refuses_in_words_where_there_is_no_gpu():
    image = f"localhost/regard:{VERSION}-gpu"
    if not exists(image):
        pytest.skip(f"{image} is not built (3 GB)")
    size = inspect("image", image)["Size"]
    print(f"gpu: {size / MEGABYTE:.0f} MB")
    assert size <= 3000 * MEGABYTE
    said = run("podman", "run", "--rm", "--network=none", "--health-interval=disable", image, check=False)
    assert "device or graph cannot be used" in said
    assert "there is no libcuda.so.1 here" in said
