"""Decoders of today in 8 bits beside CTranslate2's int8 and llama.cpp's Q8_0: `python -m benchmarks.decoders`.

The shapes of SmolLM2-135M and Qwen3-0.6B with random weights and whole vocabularies. Runtimes have two threads, and
alternate, a run each a round. What is made stays in `--folder`, which holds `decoders.json` too: it is written after
every row, so that a run may be broken off. On a machine that others use, `--clock processor --threads 1` compares what
takes the processor's time.
"""

import argparse
import atexit
import json
import os
import subprocess
import time
import warnings
from functools import partial
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from benchmarks.generation import Ours, alternate, scaled
from benchmarks.peers import ROOT, Peer, Unusable, log, python
from benchmarks.runtimes import artifacts, command, middle
from benchmarks.service import heading
from contract.artifact import read_artifact

SOURCE, NEW = 32, 128
ROWS, PROMPTS = (1, 8, 32), (512, 2048)
CACHE_BYTES = 4 << 30
"""Room for the keys and values of all rows, which the others take without being asked."""
END = "<|endoftext|>"
OURS = "ours int8"
AIMS = {"CTranslate2 int8": 1.3, "CTranslate2 int8, one thread": 1.3, "llama.cpp Q8_0": 0.9}
"""What is compared with, and how much faster ours is to be. With one thread a step of CTranslate2 may be faster."""
SHAPES = {
    "smollm2": transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0}, bos_token_id=0, eos_token_id=0,
    ),
    "qwen3": transformers.Qwen3Config(
        vocab_size=151_936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, max_position_embeddings=40_960, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0}, bos_token_id=0, eos_token_id=0,
    ),
}  # fmt: skip


def checkpoint(config, folder):
    """Write the checkpoint of a shape; its texts do not end. Return the tokens' names."""
    model = transformers.AutoModelForCausalLM.from_config(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled(model).save_pretrained(folder)
    known = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [END, *known, *(f"made{index}" for index in range(len(known) + 1, config.vocab_size))]
    tokenizer = Tokenizer(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    ends = {"bos_token": END, "eos_token": END, "unk_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", **ends}))
    rules = {"eos_token_id": 0, "pad_token_id": 0, "suppress_tokens": [0], "max_length": 4096}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    return names


def made(folder, make):
    """Make a folder's or a file's content where it is missing."""
    if not folder.exists():
        log(f"making {folder}")
        make()


class Runtimes:
    """What generates in 8 bits at one shape, and what it reads, which is made where it is missing."""

    def __init__(self, name, layers, folder, threads, clock):
        config = with_layers(SHAPES[name], layers)
        made(folder / "checkpoint/names.json", lambda: write_names(config, folder / "checkpoint"))
        self._name, self._folder, self._threads, self._clock = name, folder, threads, clock
        self._names = json.loads((folder / "checkpoint/names.json").read_text())

    def opened(self, peers):
        """Return what generates, by label: it takes sources and a number of tokens, and returns seconds and tokens."""
        found = {OURS: self._ours()}
        openings = partial(self._ctranslate2, self._threads), partial(self._ctranslate2, 1), self._llama_cpp
        for label, opened in zip(AIMS, openings, strict=True):
            if label in peers:
                try:
                    found[label] = opened()
                except Unusable as reason:
                    log(f"{label}: {reason}")
        return found

    def _ours(self):
        artifacts(self._name, self._folder, ("int8",))
        ours = Ours(read_artifact(self._folder / "int8" / self._name / "1"), batch_cache_bytes=CACHE_BYTES)
        atexit.register(ours.close)

        def generate(sources, new):
            begun = time.process_time()
            seconds, tokens = ours(sources, 1, new)
            return time.process_time() - begun if self._clock == "processor" else seconds, tokens

        return generate

    def _ctranslate2(self, threads):
        """Open CTranslate2 with its own products and with MKL's, and keep the faster."""
        same = [f"transformers=={transformers.__version__}", f"torch=={torch.__version__.split('+')[0]}"]
        interpreter = python("ctranslate2", "ctranslate2", "sentencepiece", *same)
        target = self._converted(interpreter, "ctranslate2_run.py", "ctranslate2")
        fixed = {"beams": 1, "precision": "int8", "threads": threads, "continues": True}
        least, best = float("inf"), None
        for mkl in "01":
            process = Peer(interpreter, "ctranslate2_run.py", "run", str(target), CT2_USE_MKL=mkl)

            def generate(sources, new, process=process):
                named = [[self._names[token] for token in source] for source in sources]
                answer = process.ask(sources=named, new=new, **fixed)
                return answer[self._clock], answer["tokens"]

            seconds = min(generate([[1, 2, 3]] * 4, 8)[0] for _ in range(3))
            if seconds < least:
                least, best = seconds, generate
        return best

    def _llama_cpp(self):
        """Open llama.cpp, whose package is built here where it has no wheel."""
        interpreter = python("llama-cpp", "llama-cpp-python", "gguf", "safetensors")
        target = self._converted(interpreter, "llama_cpp_run.py", "q8_0.gguf")
        process = Peer(interpreter, "llama_cpp_run.py", "run", str(target), str(self._threads))

        def generate(sources, new):
            answer = process.ask(sources=sources, new=new)
            return answer[self._clock], answer["tokens"]

        return generate

    def _converted(self, interpreter, script, name):
        """Return what a peer reads."""
        target = self._folder / name
        given = [interpreter, ROOT / "benchmarks/peers" / script, "convert", self._folder / "checkpoint", target]
        made(target, lambda: subprocess.run(given, check=True))
        return target


def write_names(config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    names = checkpoint(config, folder)
    (folder / "names.json").write_text(json.dumps(names))


def with_layers(config, layers):
    """Return a shape with fewer layers; 0: with all."""
    changed = {"num_hidden_layers": layers, "layer_types": None} if layers else {}
    return type(config)(**(config.to_dict() | changed))


def drawn(name, rows, length):
    """Draw sources of token ids."""
    random = torch.Generator().manual_seed(rows + length)
    return torch.randint(300, SHAPES[name].vocab_size, (rows, length), generator=random).tolist()


def measure(name, runs, wanted, rounds, file):
    """Print a row a cell and runtime, and keep it."""
    for rows, length, new in wanted:
        log(f"{name}: {rows} x {length} tokens, {new} new")
        sources = drawn(name, rows, length)
        seconds = alternate({label: partial(run, sources) for label, run in runs.items()}, rounds, new)
        for label, own in seconds.items():
            values = middle([rows * new / one for one in own])
            middle_one, low, high = (f"{1000 / one:.0f} ms" if new == 1 else f"{one:.1f} tokens/s" for one in values)
            ratio, least, most = middle([their / our for their, our in zip(own, seconds[OURS], strict=True)])
            beside = f"{ratio:.2f} ({least:.2f} to {most:.2f})" if label in AIMS else ""
            met = ("yes" if ratio >= AIMS[label] else "no") if label in AIMS else ""
            cells = [name, f"{rows} x {length} + {new}", label, f"{middle_one} ({low} to {high})", beside, met]
            print(f"| {' | '.join(cells)} |", flush=True)
            known = json.loads(file.read_text()) if file.exists() else {}
            known[f"{name} {rows} x {length} + {new} {label}"] = {"seconds": own, "ours is faster by": ratio}
            file.write_text(json.dumps(known, indent=1))


def main():
    """Make, measure and print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", choices=SHAPES, nargs="+", default=list(SHAPES))
    parser.add_argument("--peers", choices=AIMS, nargs="*", default=list(AIMS))
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--prompts", type=int, nargs="*", default=PROMPTS)
    parser.add_argument("--new", type=int, default=NEW)
    parser.add_argument("--rounds", type=int, default=3, help="after one that does not count")
    parser.add_argument("--layers", type=int, default=0, help="of each shape, fewer than all")
    parser.add_argument("--threads", type=int, default=2, help="of each runtime")
    parser.add_argument("--clock", choices=["seconds", "processor"], default="seconds", help="processor: seconds of it")
    parser.add_argument("--folder", type=Path, required=True, help="where what is made stays")
    arguments = parser.parse_args()
    os.environ["REGARD_THREADS"] = str(arguments.threads)
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(heading(command("decoders")))
    print(
        f"\n{arguments.rounds} alternating rounds, {arguments.threads} threads each; medians, the middle half behind.\n"
    )
    print(
        "| shape | rows x tokens + new | runtime | median and middle half | ours is faster by | aim met |\n"
        "|---|---|---|---|---|---|"
    )
    for name in arguments.models:
        cells = [(rows, SOURCE, arguments.new) for rows in arguments.rows]
        cells += [(1, length, 1) for length in arguments.prompts]
        folder = arguments.folder / (f"{name}-{arguments.layers}" if arguments.layers else name)
        runs = Runtimes(name, arguments.layers, folder, arguments.threads, arguments.clock).opened(arguments.peers)
        measure(name, runs, cells, arguments.rounds, arguments.folder / "decoders.json")


if __name__ == "__main__":
    main()
