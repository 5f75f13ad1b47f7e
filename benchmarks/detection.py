"""What a service adds to the time of a detector: `make bench-detection`.

Two detectors: a DETR of the sizes of detr-resnet-50 (Carion et al. 2020) with random weights, and the bundled
`scenes-detr`. The session of predictions alone, one picture after the other with all cores, and the service at eight
clients, which decodes pictures, and answers JSON; they run in turn, and the median of the rounds' ratios counts. Where
an answer takes long, a number of requests is sent and waited for: of a fixed time the end would be lost, since eight
requests are under way then.
"""

import argparse
import io
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import onnxruntime as ort
import torch
from PIL import Image

from benchmarks.peers import ROOT
from benchmarks.running_service import served
from benchmarks.servers import load, loader
from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.input_rules import ImageRule
from export.bundled import SOURCES
from export.pack import GraphWriter, write_manifest
from export.pipeline import write_examples, write_graphs
from export.plan import Source
from export.tasks.detection import object_detector
from model.architectures.detector import DetectorConfig, detector
from model.parts.resnet import RESNET_SIZES, STRIDE, resnet
from model.parts.stacks import StackSizes

SIZES = StackSizes(layers=6, heads=8, hidden=2048)
LARGE = DetectorConfig(
    (800, 1088), 3, cell=STRIDE, width=256, encoder=SIZES, decoder=SIZES, objects=100, classes=91, features=2048
)
PHOTO = (1066, 800)
CLIENTS = 8
MANY = 1000  # answers, beside which the eight that are under way at the end do not count


def large() -> Source:
    """Return a DETR of detr-resnet-50's sizes with random weights, for predictions and attention alone."""
    torch.manual_seed(0)
    height, width = LARGE.image
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    rule = ImageRule(height=height, width=width, channels=3, locate="fit", mean=mean, std=std)
    module = detector(LARGE, backbone=resnet(RESNET_SIZES["resnet50"])).eval()
    labels = tuple(f"class {index}" for index in range(LARGE.classes))
    source = object_detector("large", module, LARGE, family="detr", rule=rule, labels=labels, made_by={})
    for method in ("relevance", "libra", "integrated"):
        source = source.without(method)
    return source


def write(source: Source, folder: Path) -> None:
    """Write an artifact whose graphs nobody verified: random weights have nothing to show."""
    with GraphWriter(folder) as graphs:
        write_graphs(source, graphs)
    write_examples(source, folder)
    write_manifest(source, "1", "fp32", {}, {}, folder)


def picture(name: str, folder: Path) -> Path:
    """Return a file with the picture that is sent."""
    if name == "scenes-detr":
        return ROOT / "tests/data/scenes/five.png"
    noise = np.random.default_rng(0).integers(0, 256, (PHOTO[1] // 8, PHOTO[0] // 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize(PHOTO, Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    (folder / "photo.jpg").write_bytes(file.getvalue())
    return folder / "photo.jpg"


def own_rate(session: ort.InferenceSession, seconds: float) -> float:
    """Return the pictures a second of a session alone, one after the other."""
    feed = {
        port.name: np.ones([1, *port.shape[1:]], {"tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}[port.type])
        for port in session.get_inputs()
    }
    session.run(None, feed)
    count, since = 0, time.perf_counter()
    while time.perf_counter() - since < seconds:
        session.run(None, feed)
        count += 1
    return count / (time.perf_counter() - since)


def answered(url: str, file: Path, kind: str, count: int) -> dict[str, float]:
    """Send `count` requests by eight clients; return the answers a second until the last, and the 99th percentile."""
    data, headers = file.read_bytes(), {"Content-Type": kind}

    def ask(_: int) -> float:
        since = time.perf_counter()
        client.post(url, content=data, headers=headers).raise_for_status()
        return 1000 * (time.perf_counter() - since)

    with httpx.Client(timeout=300) as client, ThreadPoolExecutor(CLIENTS) as pool:
        since = time.perf_counter()
        spent = list(pool.map(ask, range(count)))
        return {"rate": count / (time.perf_counter() - since), "p99": float(np.quantile(spent, 0.99))}


def measure(name: str, source: Source, seconds: int, rounds: int) -> None:
    """Print a row of the table."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "artifacts" / name / "1"
        folder.mkdir(parents=True)
        write(source, folder)
        artifact = read_artifact(folder)
        session = ort.InferenceSession(str(artifact.path(artifact.manifest.graphs["predict"].file)))
        sent = picture(name, Path(place))
        kind = "image/png" if sent.suffix == ".png" else "image/jpeg"
        pairs = []
        with served(Path(place) / "artifacts", request_seconds=300) as client:
            url = f"{str(client.base_url).rstrip('/')}/v1/models/{name}/detect"
            for _ in range(rounds):
                alone = own_rate(session, seconds)
                few = alone * seconds < MANY
                found = (
                    answered(url, sent, kind, round(alone * seconds))
                    if few
                    else load(url, sent, kind, CLIENTS, seconds)
                )
                pairs.append((alone, found["rate"], found["p99"]))
        alone, rate, slowest = (statistics.median(column) for column in zip(*pairs, strict=True))
        share = statistics.median(one[1] / one[0] for one in pairs)
        print(f"| `{name}` | {alone:.2f} | {rate:.2f} | {share:.2f} | {slowest:.0f} |", flush=True)


def main() -> None:
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection")
    parser.add_argument("--seconds", type=int, default=40, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    loader()
    print(heading("make bench-detection"))
    print(f"| | the session alone, pictures/s | the service, {CLIENTS} clients | ratio | p99, ms |")
    print("|---|---|---|---|---|")
    measure("scenes-detr", SOURCES["scenes-detr"](), asked.seconds, asked.rounds)
    measure("large", large(), asked.seconds, asked.rounds)


if __name__ == "__main__":
    main()
