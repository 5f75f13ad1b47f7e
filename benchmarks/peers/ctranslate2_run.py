"""Generates with CTranslate2: `convert CHECKPOINT FOLDER`, or `run FOLDER` and a JSON line for every run."""

import json
import sys
import threading
import time

import ctranslate2


def convert(checkpoint, folder):
    ctranslate2.converters.TransformersConverter(checkpoint).convert(folder)


def run(folder):
    """Answer each line with the seconds that it took and the tokens' names, or with the times of what arrived."""
    loaded = {}
    types = sorted(ctranslate2.get_supported_compute_types("cpu"))
    print(json.dumps({"version": ctranslate2.__version__, "types": types}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        at_once = asked.get("at_once", 1)
        key = asked["precision"], asked["threads"], at_once
        if key not in loaded:
            kind = ctranslate2.Generator if asked["continues"] else ctranslate2.Translator
            loaded[key] = kind(folder, device="cpu", compute_type=key[0], inter_threads=at_once, intra_threads=key[1])
        model = loaded[key]
        answer = play(model, asked, at_once) if "times" in asked else together(model, asked)
        print(json.dumps(answer), flush=True)


def generate(model, continues, sources, new, beams=1, callback=None):
    """Return the tokens of each source: `new` of them, or as many as the callback lets come."""
    if continues:
        found = model.generate_batch(
            sources,
            beam_size=beams,
            min_length=new,
            max_length=new,
            sampling_topk=1,
            include_prompt_in_result=False,
            callback=callback,
        )
        return [one.sequences[0] for one in found]
    found = model.translate_batch(
        sources, beam_size=beams, min_decoding_length=new, max_decoding_length=new, callback=callback
    )
    return [one.hypotheses[0] for one in found]


def together(model, asked):
    """Generate from sources that are there at once."""
    start, begun = time.perf_counter(), time.process_time()
    tokens = generate(model, asked["continues"], asked["sources"], asked["new"], asked["beams"])
    taken = {"seconds": time.perf_counter() - start, "processor": time.process_time() - begun}
    return {**taken, "tokens": tokens}


def play(model, asked, at_once):
    """Generate from sources that arrive at given times, each a number of tokens; return when each began and was whole.

    What waits when a batch ends is the next batch. `at_once` batches run beside one another. A row leaves its batch
    once it has its tokens, and counts as answered then, as if it had been sent from there.
    """
    times, sources, new = asked["times"], asked["sources"], asked["new"]
    first, whole = {}, {}
    taken, lock, start = 0, threading.Lock(), time.perf_counter()

    def batches():
        nonlocal taken
        while True:
            with lock:
                if taken == len(times):
                    return
                time.sleep(max(0.0, start + times[taken] - time.perf_counter()))
                now = time.perf_counter() - start
                group = [index for index in range(taken, len(times)) if times[index] <= now][: asked["most"]]
                taken += len(group)

            def grew(step, group=group):
                index, now = group[step.batch_id], time.perf_counter() - start
                first.setdefault(index, now)
                if step.step + 1 < new[index]:
                    return False
                whole.setdefault(index, now)
                return True

            generate(
                model,
                asked["continues"],
                [sources[index] for index in group],
                max(new[index] for index in group),
                callback=grew,
            )

    workers = [threading.Thread(target=batches) for _ in range(at_once)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"first": [first[i] for i in range(len(times))], "whole": [whole[i] for i in range(len(times))]}


if __name__ == "__main__":
    {"convert": convert, "run": run}[sys.argv[1]](*sys.argv[2:])
