"""What an attention request of a decoder takes, with a large vocabulary: `python -m benchmarks.logits`.

The shapes of GPT-2 with random weights, and one text, of which one row of logits is asked for. Bytes are those of the
largest output. Time is that of the processor, of all threads together: the median of several runs. Memory is how far
the peak of the process rises in the second run.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

from benchmarks.service import heading
from contract.generation import Generation
from contract.input_rules import TextRule
from contract.manifest import GRAPH_METHODS, Role
from export.checkpoints.reading.tokenizers.tokenizer import character_tokenizer
from export.pack import GraphWriter
from export.pipeline import write_graphs
from export.plan import Plan, Source
from export.progress import return_memory
from export.tasks.generation import text_continuer
from model.architectures.gpt import GPTConfig, gpt
from model.vocabularies import ALPHABET, SPECIALS

ROLES: tuple[Role, ...] = ("predict", "attention", "relevance", "libra", "integrated")


def continuer(config: GPTConfig) -> Source:
    """Return a decoder with random weights."""
    torch.manual_seed(0)
    return text_continuer(
        "continuer",
        gpt(config).eval(),
        config,
        family="gpt2",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=config.length),
        tokenizer=character_tokenizer(SPECIALS, ALPHABET),
        rules=Generation(start=None, end=2, max_new_tokens=config.length, caches=(), memory=()),
        made_by={},
    )


def feed(plan: Plan, tokens: int, layer: int) -> dict[str, np.ndarray]:
    """Return what a request for the last layer's map of all rows, or for a token of the middle, gives a graph."""
    sizes = {"batch": 1, "source": tokens, "target": tokens, "target_input": tokens, "answered": 1, "rows": 1}
    asked = {"decoder.layers": 1, "decoder.rows": tokens, "decoder.heads": 0, "decoder.after": 0}
    drawn = {
        "method": torch.tensor(GRAPH_METHODS.index("raw")),
        "fusion": torch.tensor(1),
        "diagnose": torch.tensor(False),
        "decoder.layers": torch.tensor([layer]),
        "decoder.rows": torch.arange(tokens),
        "decoder.discard": torch.tensor(0),
        "explained": torch.tensor([17]),
        "against": torch.tensor([-1]),
        "position": torch.tensor([tokens // 2]),
        "rows": torch.tensor([[tokens // 2]]),
        "blank": torch.ones(1),
        "point": torch.full((1,), 0.5),
    }
    tensors = plan.example({**sizes, **asked}, 1, drawn)
    return {port.name: tensor.numpy() for port, tensor in zip(plan.inputs, tensors, strict=True)}


def main() -> None:
    """Export the graphs without verifying them, and print a row for each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--vocabulary", type=int, default=50_257)
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    config = GPTConfig(given.vocabulary, length=1024, width=768, layers=given.layers, heads=12, hidden=3072)
    print(heading(f"logits: {given.layers} layers, {given.vocabulary} words, {given.tokens} tokens"))
    with tempfile.TemporaryDirectory() as folder:
        source = continuer(config)
        with GraphWriter(Path(folder)) as graphs:
            write_graphs(source, graphs)
        print(
            "| graph | largest output, bytes | ms of the processor | peak of memory rises by, MB |\n|---|---|---|---|"
        )
        for role in ROLES:
            print(f"| {role} | {' | '.join(measured(source.plan(role), folder, given))} |", flush=True)


def measured(plan: Plan, folder: str, given: argparse.Namespace) -> tuple[str, str, str]:
    """Return the bytes of a graph's largest output, its time, and by how much memory rises in a run."""
    session_options = ort.SessionOptions()
    session_options.intra_op_num_threads = given.threads
    session_options.enable_cpu_mem_arena = False
    session_options.enable_mem_pattern = False
    session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # which would count as work
    session = ort.InferenceSession(f"{folder}/{plan.role}.onnx", session_options, providers=["CPUExecutionProvider"])
    inputs, times = feed(plan, given.tokens, given.layers - 1), []
    largest = max(array.nbytes for array in session.run(None, inputs))  # which reads the weights from the disk, too
    return_memory()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _resident("VmRSS")
    session.run(None, inputs)
    risen = _resident("VmHWM") - before
    for _ in range(given.rounds):
        begun = time.process_time()
        session.run(None, inputs)
        times.append(time.process_time() - begun)
    return f"{largest:,}", f"{1000 * statistics.median(times):,.0f}", f"{risen / 1e6:.0f}"


def _resident(what: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[what].split()[0]) << 10


if __name__ == "__main__":
    main()
