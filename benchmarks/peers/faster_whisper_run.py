"""Transcribes with faster-whisper: `FOLDER THREADS`, and a JSON line for every run."""

import functools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import faster_whisper


def main():
    """Answer each line with the seconds that its files took, and their texts."""
    folder, threads = sys.argv[1], int(sys.argv[2])
    model = faster_whisper.WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=threads)

    def write(file, words):
        plain = {"beam_size": 1, "temperature": 0.0, "condition_on_previous_text": False, "language": "en"}
        segments, _ = model.transcribe(file, word_timestamps=words, without_timestamps=not words, **plain)
        return "".join(one.text for one in segments).strip()

    print(json.dumps({"version": faster_whisper.__version__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        with ThreadPoolExecutor(asked["at_once"]) as pool:
            texts = list(pool.map(functools.partial(write, words=asked["words"]), asked["files"]))
        print(json.dumps({"seconds": time.perf_counter() - start, "texts": texts}), flush=True)


if __name__ == "__main__":
    main()
