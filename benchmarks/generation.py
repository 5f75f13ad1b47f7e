"""What generating costs beside other runtimes: `python -m benchmarks.generation`.

A Marian of 6 + 6 layers and GPT-2 small, with random weights whose attention is not flat and whose texts do not end:
sources of 32 tokens, 64 new ones. Runtimes alternate, a run each a round; each is warm, and the others wait meanwhile.
Then prompts are long, and the first token counts. Then sources arrive by themselves, and sequences that join and leave
the running batch are held against batches that run until all are done, in the same runtime and in CTranslate2.

What is made (checkpoints, artifacts, what was measured) goes to `--folder`, and what lies there is not made again.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from benchmarks.peers import ROOT, Peer, log, python
from benchmarks.runtimes import artifacts, command, middle
from benchmarks.service import heading
from contract.artifact import read_artifact
from service.batching.admission import Backlog
from service.inputs.model_input import ModelInput
from service.options.generation import GenerateOptions
from service.repository.models.tasks import TASKS
from service.runtime.device import Device
from service.runtime.session import choose_device
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT

SOURCE, NEW, WARM = 32, 64, 8
BATCHES = (1, 8, 32)
BEAMS = 4
ROWS = 128
"""Rows that we decode at a time: enough for the largest batch of beams."""
LIBRARIES = (("automatic", False), ("AVX2", False), ("AVX512", False), ("automatic", True))
"""Settings of CTranslate2: its instructions, and whether they are to be MKL's."""
COMPARED = 32
"""Texts whose tokens are compared: of a few, where each leaves the reference is chance."""
PROMPT = 512
"""Tokens of a long prompt."""
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Rates of arrival, as shares of what 64 sources that are there at once are answered at."""
BOUNDS = (2, 3, 4)
"""Bounds on the 99th percentile, as multiples of how long 96 tokens take alone."""
WORDS = "the old house stands by a river and the new boat on its water goes slowly to another quiet town".split()


def scaled(model):
    """Draw weights that keep the size of what they multiply, and with which texts are neither flat nor one token.

    Queries and keys are larger, so that attention is sharp. A Marian's branches are small beside what they are added
    to, which tells the last token, and its last norm turns signs, or that token would be the likeliest once more.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:  # sinusoids
                continue
            if parameter.ndim < 2:
                parameter.add_(0.02 * torch.randn_like(parameter))
                continue
            transposed = "c_" in name  # GPT-2's layers
            parameter.normal_(std=parameter.shape[not transposed] ** -0.5)
            if "q_proj" in name or "k_proj" in name:
                parameter.mul_(1.5)
            elif "c_attn" in name:
                parameter[:, : parameter.shape[1] * 2 // 3].mul_(1.5)
            elif "out_proj" in name or "fc2" in name:
                parameter.mul_(0.35)
        if model.config.is_encoder_decoder:
            model.model.shared.weight[model.config.pad_token_id] = 0  # with which CTranslate2 begins
            last = model.model.decoder.layers[-1].final_layer_norm.weight
            last.mul_(torch.randn_like(last).sign())
    return model.eval()


def marian(folder):
    """Write the checkpoint of a translator, with a vocabulary of which most is made up."""
    pad, end = 31999, 0
    config = transformers.MarianConfig(
        vocab_size=pad + 1, decoder_vocab_size=pad + 1, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
        activation_function="swish", scale_embedding=True, max_position_embeddings=512,
        pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad, forced_eos_token_id=None,
    )  # fmt: skip
    save(transformers.MarianMTModel(config), folder, pad, [end, pad])
    lines = [" ".join(WORDS[start:]) for start in range(len(WORDS))]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "source"), vocab_size=60, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    (folder / "source.model").rename(folder / "source.spm")
    (folder / "source.vocab").unlink()
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    known = [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    names = ["</s>", "<unk>", *known]
    names += [f"▁made{index}" for index in range(len(names), pad)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    return names


def gpt2(folder):
    """Write the checkpoint of a continuer, with a vocabulary of which most is made up."""
    config = transformers.GPT2Config()
    save(transformers.GPT2LMHeadModel(config), folder, config.eos_token_id, [config.eos_token_id])
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [f"made{index}" for index in range(len(names), config.eos_token_id)]
    tokenizer = Tokenizer(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    end = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", **end}))
    return [*names, "<|endoftext|>"]


def save(model, folder, pad, never):
    """Write a model and the rule that some tokens never come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled(model).save_pretrained(folder)
    start = {"decoder_start_token_id": pad} if model.config.is_encoder_decoder else {}
    rules = {"eos_token_id": never[0], "pad_token_id": pad, "suppress_tokens": never, "max_length": 256, **start}
    (folder / "generation_config.json").write_text(json.dumps(rules))


CHECKPOINTS = {"marian": marian, "gpt2": gpt2}


class Ours:
    """An artifact at work in this process, as the service has it, with other settings where they are given."""

    def __init__(self, artifact, device="cpu", **settings):
        settings = Settings(**{"batch_rows": ROWS, **settings})
        self.served = TASKS[artifact.manifest.task](artifact, choose_device(device), settings)
        self._loop = asyncio.new_event_loop()
        self._device = Device()
        self.served.start(self._device, Backlog(settings.request_seconds), Metrics(), SILENT)
        self._tasks = [self._loop.create_task(work()) for work in self.served.loops()]
        self.run(self.served.warm_up(self._device))

    def run(self, work):
        """Wait for work on this one's loop."""
        return self._loop.run_until_complete(work)

    def one(self, source, new, beams=1, grew=None):
        """Return what generates from a source of token ids."""
        arrays = {"source": np.array(source), "source_visible": np.ones(len(source), np.bool_)}
        item = ModelInput(arrays, {"source": len(source)}, {})
        options = GenerateOptions(max_new_tokens=new, num_beams=beams)
        return self.served.generate(item, options, grew)

    def __call__(self, sources, beams, new):
        """Return the seconds, and the tokens."""

        async def together():
            return await asyncio.gather(*(self.one(source, new, beams) for source in sources))

        start = time.perf_counter()
        found = self.run(together())
        return time.perf_counter() - start, [list(one.tokens) for one in found]

    def close(self):
        for task in self._tasks:
            task.cancel()
        self.run(asyncio.gather(*self._tasks, return_exceptions=True))
        self._device.close()
        self._loop.close()


class Reference:
    """The transformers library's generate."""

    def __init__(self, checkpoint, kind):
        self._model = getattr(transformers, kind).from_pretrained(checkpoint, dtype=torch.float32).eval()

    def to(self, dtype):
        self._model.to(dtype)
        return self

    def __call__(self, sources, beams, new):
        """Return the seconds, and the tokens."""
        given = torch.tensor(sources)
        start = time.perf_counter()
        with torch.inference_mode():
            found = self._model.generate(
                given, attention_mask=torch.ones_like(given), num_beams=beams, do_sample=False, min_new_tokens=new,
                max_new_tokens=new, max_length=None,
            )  # fmt: skip
        return time.perf_counter() - start, found[:, -new:].tolist()


class CTranslate2:
    """A process of CTranslate2 with its settings; it speaks of tokens by name."""

    def __init__(self, interpreter, folder, names, continues):
        self._interpreter, self._folder, self._names, self._continues = interpreter, folder, names, continues
        self._indices = {name: index for index, name in enumerate(names)}
        self._processes = {}

    def __call__(self, sources, beams, new, *, precision, setting):
        """Return the seconds, and the tokens; setting: instructions, with MKL, threads."""
        named = [[self._names[index] for index in source] for source in sources]
        answer = self._process(*setting[:2]).ask(
            sources=named, beams=beams, new=new, precision=precision, threads=setting[2], continues=self._continues
        )
        return answer["seconds"], [[self._indices[name] for name in tokens] for tokens in answer["tokens"]]

    @property
    def version(self):
        return self._process("automatic", False).about["version"]

    def tried(self, precision, sources):
        """Return each setting, and the tokens a second that it generates from these sources."""
        found, least = [], float("inf")
        for instructions, mkl in LIBRARIES:
            for threads in (1, 2):
                setting = instructions, mkl, threads
                run = partial(self, sources, 1, 24, precision=precision, setting=setting)
                run()
                taken = [run()[0]]
                if taken[0] < 3 * least:  # else it is not the best
                    taken += [run()[0] for _ in range(2)]
                least = min(least, statistics.median(taken))
                found.append((setting, len(sources) * 24 / statistics.median(taken)))
        return found

    def keep(self, settings):
        """End the processes that none of the settings needs."""
        for key in set(self._processes) - {setting[:2] for setting in settings}:
            self._processes.pop(key).close()

    def play(self, arrivals, *, precision, setting, at_once):
        """Return the seconds from the start at which each source that arrives got its first token, and its last.

        `at_once` batches run beside one another, with as many threads together as the setting has.
        """
        answer = self._process(*setting[:2]).ask(
            times=arrivals.times,
            sources=[[self._names[index] for index in source] for source in arrivals.sources],
            new=arrivals.new,
            most=ROWS,
            precision=precision,
            threads=max(1, setting[2] // at_once),
            at_once=at_once,
            continues=self._continues,
        )
        return answer["first"], answer["whole"]

    def _process(self, instructions, mkl):
        if (instructions, mkl) not in self._processes:
            environment = {"CT2_USE_MKL": str(int(mkl))}
            if instructions != "automatic":
                environment["CT2_FORCE_CPU_ISA"] = instructions
            process = Peer(self._interpreter, "ctranslate2_run.py", "run", self._folder, **environment)
            self._processes[instructions, mkl] = process
        return self._processes[instructions, mkl]


def prepare(name, folder, interpreter):
    """Make the checkpoint, our artifacts and CTranslate2's model, unless they are there; return the tokens' names."""
    checkpoint = folder / name / "checkpoint"
    if not (names := checkpoint / "names.json").exists():
        log(f"{name}: checkpoint")
        checkpoint.mkdir(parents=True)
        names.write_text(json.dumps(CHECKPOINTS[name](checkpoint)))
    artifacts(name, folder / name, ("fp32", "int8"))
    if not (folder / name / "ctranslate2").exists():
        log(f"{name}: CTranslate2's")
        script = ROOT / "benchmarks/peers/ctranslate2_run.py"
        subprocess.run([interpreter, script, "convert", checkpoint, folder / name / "ctranslate2"], check=True)
    return json.loads(names.read_text())


def alternate(runs, rounds, new=NEW):
    """Return each run's seconds, from alternating rounds, the first of which does not count; each is warmed up anew."""
    found = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            run(min(new, WARM))
            seconds, _ = run(new)
            if number:
                found[name].append(seconds)
    return found


def precision_of_ours(label):
    """Return which of our precisions a runtime is held against."""
    return "int8" if "int8" in label else "fp32"


class Bench:
    """All runtimes of one model."""

    def __init__(self, name, folder, interpreter):
        self.name = name
        self.names = prepare(name, folder, interpreter)
        self.folder = folder / name
        self.continues = name == "gpt2"
        self.ours = {precision: self.load(precision) for precision in ("fp32", "int8")}

    def load(self, precision):
        """Open our artifact."""
        return Ours(read_artifact(self.folder / precision / self.name / "1"))

    def peers(self, interpreter):
        """Open the other runtimes."""
        kind = "GPT2LMHeadModel" if self.continues else "MarianMTModel"
        self.reference = Reference(self.folder / "checkpoint", kind)
        self.half = Reference(self.folder / "checkpoint", kind).to(torch.bfloat16)
        self.ct2 = CTranslate2(interpreter, self.folder / "ctranslate2", self.names, self.continues)

    def sources(self, count, lengths=(SOURCE, SOURCE), seed=0):
        """Draw sources of token ids; a translator's end as its tokenizer ends them."""
        random = np.random.default_rng(seed)
        drawn = [
            random.integers(3, len(self.names) - 1, random.integers(lengths[0], lengths[1] + 1)) for _ in range(count)
        ]
        return [one.tolist() if self.continues else [*one[:-1].tolist(), 0] for one in drawn]

    def settings(self):
        """Choose how CTranslate2 runs, for one source and for several, and print how it does with each setting."""
        cells = [(precision, batch) for precision in ("float32", "int8") for batch in (1, 8)]
        file = self.folder / "settings.json"
        if not file.exists():
            columns = []
            for precision, batch in cells:
                log(f"{self.name}: settings of CTranslate2, {precision}, batch {batch}")
                columns.append(self.ct2.tried(precision, self.sources(batch)))
            file.write_text(json.dumps(columns))
        columns = [{tuple(setting): tokens for setting, tokens in column} for column in json.loads(file.read_text())]
        self.chosen = {cell: max(column, key=column.get) for cell, column in zip(cells, columns, strict=True)}
        print(f"\n{self.name}: CTranslate2 {self.ct2.version}, greedy, 24 new tokens: tokens a second by setting.\n")
        titles = " | ".join(f"{precision}, batch {batch}" for precision, batch in cells)
        print(f"| instructions | library | threads | {titles} |\n|---|---|---|---|---|---|---|")
        for setting in columns[0]:
            instructions, mkl, threads = setting
            shown = [
                f"**{column[setting]:.0f}**" if setting == best else f"{column[setting]:.0f}"
                for column, best in zip(columns, self.chosen.values(), strict=True)
            ]
            print(f"| {instructions} | {'MKL' if mkl else 'its own choice'} | {threads} | {' | '.join(shown)} |")
        self.ct2.keep(self.chosen.values())

    def runs(self, batch, beams, length=SOURCE):
        """Return what is timed, by label."""
        sources = self.sources(batch, (length, length))
        runs = {
            "ours fp32": partial(self.ours["fp32"], sources, beams),
            "ours int8": partial(self.ours["int8"], sources, beams),
            "transformers fp32": partial(self.reference, sources, beams),
            "transformers bf16": partial(self.half, sources, beams),
        }
        for precision in ("float32", "int8"):
            setting = self.chosen[precision, 8 if batch > 1 else 1]
            runs[f"CTranslate2 {precision}"] = partial(self.ct2, sources, beams, precision=precision, setting=setting)
        return runs

    def close(self):
        """End the processes and loops."""
        for ours in self.ours.values():
            ours.close()
        if hasattr(self, "ct2"):
            self.ct2.keep([])

    def agreement(self):
        """Return for each runtime how its tokens are those of transformers in fp32, and how many are distinct.

        That is the share that is equal at the same place, and how many come before the first other one.
        """
        if (file := self.folder / "agreement.json").exists():
            return json.loads(file.read_text())
        runs = self.runs(COMPARED, 1)
        wanted = np.array(runs["transformers fp32"](NEW)[1])
        agreed = {}
        for label, run in runs.items():
            equal = np.array(run(NEW)[1]) == wanted
            agreed[label] = f"{equal.mean():.3f}, {np.cumprod(equal, axis=1).sum(1).mean():.0f}"
        file.write_text(json.dumps(found := (agreed, float(np.mean([len(set(row)) for row in wanted])))))
        return found

    def compare(self, beams, batches, rounds, agreed):
        """Print a row a batch and runtime; return the tokens a second."""
        found = {}
        for batch in batches:
            log(f"{self.name}: batch {batch}, {beams} beams")
            runs = self.runs(batch, beams)
            seconds = alternate(runs, rounds)
            for label, own in seconds.items():
                mine = seconds[f"ours {precision_of_ours(label)}"]
                median, low, high = middle([batch * NEW / one for one in own])
                ratio, least, most = middle([their / our for their, our in zip(own, mine, strict=True)])
                times = "" if label.startswith("ours") else f"{ratio:.2f}x ({least:.2f} to {most:.2f})"
                share = agreed[label] if beams == 1 else ""
                print(
                    f"| {self.name} | {batch} | {label} | {median:.0f} | {low:.0f} to {high:.0f} | {times} | {share} |",
                    flush=True,
                )
                found[f"{batch} {label}"] = median
        return found

    def prompts(self, batches, rounds):
        """Print a row a batch and runtime for long prompts: the first token, and all."""
        for batch in batches:
            log(f"{self.name}: batch {batch}, prompts of {PROMPT}")
            runs = self.runs(batch, 1, PROMPT)
            first, whole = (alternate(runs, rounds, new) for new in (1, NEW))
            for label in runs:
                cells = []
                for seconds in (first, whole):
                    mine = seconds[f"ours {precision_of_ours(label)}"]
                    median, low, high = middle([1000 * one for one in seconds[label]])
                    ratio, least, most = middle([their / our for their, our in zip(seconds[label], mine, strict=True)])
                    cells.append(f"{median:.0f} ({low:.0f} to {high:.0f})")
                    cells.append("" if label.startswith("ours") else f"{ratio:.2f}x ({least:.2f} to {most:.2f})")
                print(f"| {self.name} | {batch} | {label} | {' | '.join(cells)} |", flush=True)


class Arrivals:
    """Sources that arrive by themselves at a rate, and what became of each."""

    def __init__(self, bench, rate, seconds, seed=1):
        random = np.random.default_rng(seed)
        gaps = random.exponential(1 / rate, int(rate * seconds * 2) + 8)
        self.times = [at for at in np.cumsum(gaps) if at < seconds] or [0.0]
        self.sources = bench.sources(len(self.times), (8, 48), seed)
        self.new = random.integers(8, 97, len(self.times)).tolist()

    async def joining(self, ours):
        """Submit each when it arrives."""
        start = time.perf_counter()

        async def one(index):
            await asyncio.sleep(start + self.times[index] - time.perf_counter())
            await self._answered(ours, index, start)

        await asyncio.gather(*(one(index) for index in range(len(self.times))))

    async def static(self, ours):
        """Submit what waits together, and the next when all of it is done."""
        start, index = time.perf_counter(), 0
        while index < len(self.times):
            await asyncio.sleep(start + self.times[index] - time.perf_counter())
            now = time.perf_counter() - start
            group = [i for i in range(index, len(self.times)) if self.times[i] <= now][:ROWS]
            await asyncio.gather(*(self._answered(ours, i, start) for i in group))
            index = group[-1] + 1

    async def _answered(self, ours, index, start):
        def grew(_):
            self.first.setdefault(index, time.perf_counter() - start - self.times[index])

        await ours.one(self.sources[index], self.new[index], grew=grew)
        self.whole[index] = time.perf_counter() - start - self.times[index]
        self.end = time.perf_counter() - start

    def play(self, ours, how):
        """Have ours answer, by the method of this name; return the figures."""
        self.first, self.whole = {}, {}
        ours.run(getattr(self, how)(ours))
        return self._figures()

    def play_peer(self, play):
        """Have CTranslate2 answer; return the figures."""
        first, whole = play(self)
        self.first = {index: at - self.times[index] for index, at in enumerate(first)}
        self.whole = {index: at - self.times[index] for index, at in enumerate(whole)}
        self.end = max(whole)
        return self._figures()

    def _figures(self):
        """Return requests, tokens a second, and milliseconds: first token (median), whole (median, 99 %)."""
        whole = list(self.whole.values())
        return {
            "requests": len(whole),
            "tokens": sum(self.new) / self.end,
            "first": 1000 * statistics.median(self.first.values()),
            "half": 1000 * statistics.median(whole),
            "late": 1000 * float(np.quantile(whole, 0.99)),
        }


def carried(points, bound):
    """Return the tokens a second at which the 99th percentile meets a bound, between the points that were measured.

    None where it does not even at the lowest rate.
    """
    known = sorted((point["tokens"], point["late"]) for point in points)
    if known[0][1] > bound:
        return None
    for (less, early), (more, late) in itertools.pairwise(known):
        if late > bound:
            return less + (more - less) * (bound - early) / (late - early)
    return known[-1][0]


def open_loop(bench, precision, seconds):
    """Print what each way carries at a sweep of rates."""
    ours = bench.ours[precision]
    kind = {"fp32": "float32"}.get(precision, precision)
    peers = {
        f"CTranslate2, {at_once} at a time": partial(
            bench.ct2.play, precision=kind, setting=bench.chosen[kind, 8], at_once=at_once
        )
        for at_once in (1, 2)
    }
    sample = Arrivals(bench, 64, 1.0, seed=2)
    longest = sample.sources[0] * 6
    alone = [ours([longest[:SOURCE]], 1, 96)[0] * 1000 for _ in range(4)]
    idle = []
    for index in range(8):
        one = Arrivals(bench, 1, 1.0, seed=3 + index)
        one.times, one.sources, one.new = [0.0], one.sources[:1], [8]
        idle.append(one.play(ours, "joining")["first"])
    sample.times = [0.0] * len(sample.times)
    most = max(sample.play(ours, "joining")["tokens"] for _ in range(2))
    whole, first = statistics.median(alone[1:]), statistics.median(idle[1:])
    print(f"\n{bench.name}, {precision}: 96 tokens alone take {whole:.0f} ms, the first token {first:.1f} ms; ", end="")
    print(f"{len(sample.times)} sources that are there at once are answered at {most:.0f} tokens/s.\n")
    print("| offered, tokens/s | requests | way | tokens/s | p50 ms | p99 ms | first token, p50 ms | of idle |")
    print("|---|---|---|---|---|---|---|---|")
    found = {"joining": [], "static": [], **{way: [] for way in peers}}
    for share in SHARES:
        rate = share * most / 52
        for way, points in found.items():
            log(f"{bench.name} {precision}: {share:.0%} of the most, {way}")
            arrivals = Arrivals(bench, rate, seconds)
            point = arrivals.play_peer(peers[way]) if way in peers else arrivals.play(ours, way)
            points.append(point)
            print(
                f"| {rate * 52:.0f} | {point['requests']} | {way} | {point['tokens']:.0f} | {point['half']:.0f} "
                f"| {point['late']:.0f} | {point['first']:.0f} | {point['first'] / first:.1f}x |",
                flush=True,
            )
    print(f"\n| p99 at most, ms | {' | '.join(f'{way}, tokens/s' for way in found)} |\n|---|{'---|' * len(found)}")
    for bound in BOUNDS:
        rates = {way: carried(points, bound * whole) for way, points in found.items()}
        cells = []
        for way, rate in rates.items():
            times = f" ({rates['joining'] / rate:.2f}x)" if rate and rates["joining"] and way != "joining" else ""
            cells.append(f"{rate:.0f}{times}" if rate else "at none of these rates")
        print(f"| {bound * whole:.0f} ({bound} x 96 tokens alone) | {' | '.join(cells)} |")


def plot(folder):
    """Draw throughput against batch, of whatever was measured."""
    import matplotlib.pyplot as plt  # only where it is drawn

    kept = {file.parent.name: json.loads(file.read_text()) for file in sorted(folder.glob("*/greedy.json"))}
    figure, axes = plt.subplots(1, len(kept), figsize=(5 * len(kept), 4), squeeze=False)
    for axis, (name, found) in zip(axes[0], kept.items(), strict=True):
        lines = {}
        for key, tokens in found.items():
            batch, label = key.split(" ", 1)
            lines.setdefault(label, []).append((int(batch), tokens))
        for label, points in lines.items():
            style = "-o" if label.startswith("ours") else "--s"
            axis.plot(*zip(*sorted(points), strict=True), style, label=label)
        axis.set(
            xscale="log", yscale="log", xlabel="sources at a time", ylabel="tokens a second", title=f"{name}, greedy"
        )
        axis.set_xticks(BATCHES, BATCHES)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    (target := ROOT / "benchmarks/plots/generation.png").parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=120)
    log(f"drawn: {target.relative_to(ROOT)}")


def keep(file, found):
    """Add what was found to a file of the like."""
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | found))


def main():
    """Make, measure and print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--part", choices=["prepare", "static", "beams", "prompts", "open"], nargs="+",
        default=["static", "beams", "prompts", "open"],
    )  # fmt: skip
    parser.add_argument("--models", choices=CHECKPOINTS, nargs="+", default=list(CHECKPOINTS))
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20, help="of each rate of arrival")
    parser.add_argument("--precisions", choices=["fp32", "int8"], nargs="+", default=["fp32"], help="of arrivals")
    parser.add_argument("--quick", action="store_true", help="two rounds, no batch of 32, 6 seconds a rate")
    parser.add_argument("--folder", type=Path, help="where what is made stays (default: a temporary folder)")
    arguments = parser.parse_args()
    rounds, seconds, batches = arguments.rounds, arguments.seconds, arguments.batches
    if arguments.quick:
        rounds, seconds, batches = 2, 6.0, [batch for batch in batches if batch <= 8]
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    same = [f"transformers=={transformers.__version__}", f"torch=={torch.__version__.split('+')[0]}"]
    interpreter = python("ctranslate2", "ctranslate2", "sentencepiece", *same)
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "prepare" in arguments.part:
            for name in arguments.models:
                prepare(name, folder, interpreter)
            return
        print(heading(command("generation")))
        print(
            f"transformers {transformers.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads; "
            f"sources of {SOURCE} tokens, {NEW} new ones, {rounds} alternating rounds after one that does not count, "
            f"every run behind one of {WARM} tokens; medians, the middle half behind them."
        )
        for name in arguments.models:
            bench = Bench(name, folder, interpreter)
            bench.peers(interpreter)
            bench.settings()
            if {"static", "beams"} & set(arguments.part):
                agreed, distinct = bench.agreement()
                print(
                    f"\n{distinct:.0f} of {NEW} tokens of a text are distinct. "
                    f"Tokens are those of {COMPARED} texts, greedy:"
                )
                print(
                    "the share that is as in transformers fp32 at its place, and how many come before the first other."
                )
            for part, beams in (("static", 1), ("beams", BEAMS)):
                if part in arguments.part:
                    print(f"\n{'Greedy' if beams == 1 else f'{beams} beams'}:\n")
                    print("| model | batch | runtime | tokens/s | middle half | ours is faster by | same tokens |")
                    print("|---|---|---|---|---|---|---|")
                    found = bench.compare(beams, batches, rounds, agreed)
                    if beams == 1:
                        keep(folder / name / "greedy.json", found)
            if "prompts" in arguments.part:
                print(f"\nPrompts of {PROMPT} tokens, greedy: ms until the first token, and until {NEW}.\n")
                print("| model | batch | runtime | first, ms | ours is faster by | all, ms | ours is faster by |")
                print("|---|---|---|---|---|---|---|")
                bench.prompts(batches, rounds)
            if "open" in arguments.part:
                for precision in arguments.precisions:
                    open_loop(bench, precision, seconds)
            bench.close()
        if "static" in arguments.part:
            plot(folder)


if __name__ == "__main__":
    main()
