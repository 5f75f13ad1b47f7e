"""Generates with CTranslate2: `convert CHECKPOINT FOLDER`, or `run FOLDER` and a JSON line for every run."""

import json
import sys
import time

import ctranslate2


def convert(checkpoint, folder):
    ctranslate2.converters.TransformersConverter(checkpoint).convert(folder)


def run(folder):
    """Answer each line with the seconds that it took and the tokens' names."""
    loaded = {}
    types = sorted(ctranslate2.get_supported_compute_types("cpu"))
    print(json.dumps({"version": ctranslate2.__version__, "types": types}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["precision"], asked["threads"]
        if key not in loaded:
            kind = ctranslate2.Generator if asked["continues"] else ctranslate2.Translator
            loaded[key] = kind(folder, device="cpu", compute_type=key[0], inter_threads=1, intra_threads=key[1])
        new, beams, sources = asked["new"], asked["beams"], asked["sources"]
        start = time.perf_counter()
        if asked["continues"]:
            found = loaded[key].generate_batch(
                sources,
                beam_size=beams,
                min_length=new,
                max_length=new,
                sampling_topk=1,
                include_prompt_in_result=False,
            )
            tokens = [one.sequences[0] for one in found]
        else:
            found = loaded[key].translate_batch(
                sources, beam_size=beams, min_decoding_length=new, max_decoding_length=new
            )
            tokens = [one.hypotheses[0] for one in found]
        print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    {"convert": convert, "run": run}[sys.argv[1]](*sys.argv[2:])
