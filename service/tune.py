"""The command `python -m service.tune`, which measures how many threads a run of each model should have here.

A run of one thread leaves the other cores to the runs of others: as many go beside one another as there are cores. That
answers more in all, and one request alone waits longer.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping

from contract.manifest import Role
from service.repository.loading.load import LOAD_ERRORS, load
from service.repository.models.served_model import ServedModel
from service.runtime.device import Device
from service.runtime.session import Session, is_light
from service.runtime.threads import default_threads, share_of_cores
from service.settings import SettingsError, read_settings

SECONDS = 2.0
"""Of each measurement."""
LENGTHS = (32, 128, 512)
"""Tokens of the texts that are measured, as far as a model takes them."""


def main() -> int:
    """Measure every model that the settings name; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m service.tune",
        description="Measures how many threads a run of each model should have here: some seconds for each graph, on "
        "all cores. Settings are environment variables, as of the service: REGARD_ARTIFACTS names the models.",
    )
    parser.parse_args()
    try:
        settings = read_settings()
        cores = share_of_cores(settings)
        choices = sorted({settings.threads or cores, default_threads(settings), 1, cores})
        loaded = {threads: load(settings.model_copy(update={"threads": threads})) for threads in choices}
    except SettingsError as error:
        _print(str(error))
        return 2
    except ExceptionGroup as group:
        _print("\n".join(str(error) for error in group.exceptions))
        return 2
    except LOAD_ERRORS as error:
        _print(str(error))
        return 2
    _print(f"{cores} cores; {SECONDS:g} seconds each, one input a run\n")
    _print("| model | graph | tokens | threads of a run | ms alone | runs a second, one on each share of the cores |")
    _print("|---|---|---|---|---|---|")
    gains: dict[int, list[float]] = {threads: [] for threads in choices}
    for name in loaded[choices[0]]:
        if not loaded[choices[0]][name].on_cpu:
            _print(f"| {name} | runs on a GPU, where threads do not matter | | | | |")
            continue
        default = 1 if is_light(loaded[choices[0]][name].artifact) else default_threads(settings)
        for role, lengths in _cases(loaded[choices[0]][name]):
            rates = {}
            for threads in choices:
                session = loaded[threads][name].sessions[role]
                alone, rates[threads] = asyncio.run(_measure(session, lengths, cores))
                tokens = max(lengths.values(), default="")
                mark = " (default)" if threads == default else ""
                _print(f"| {name} | {role} | {tokens} | {threads}{mark} | {1000 * alone:.2f} | {rates[threads]:.1f} |")
            for threads in choices:
                gains[threads].append(rates[threads] / rates[cores])
    for threads in choices[:-1]:
        if gains[threads]:
            gain = statistics.geometric_mean(gains[threads])
            _print(f"\nREGARD_THREADS={threads} runs {gain:.2f} times as much as {cores} threads a run, in the mean.")
    return 0


def _cases(served: ServedModel) -> list[tuple[Role, Mapping[str, int]]]:
    """Return which graphs are measured, with which lengths of axes: of images there is one."""
    longest = served.longest()
    roles = [role for role in served.roles if role != "attention"]
    if not longest:
        return [(role, {}) for role in roles]
    some = [length for length in LENGTHS if length <= max(longest.values())] or [max(longest.values())]
    return [(role, {axis: min(length, most) for axis, most in longest.items()}) for role in roles for length in some]


async def _measure(session: Session, lengths: Mapping[str, int], cores: int) -> tuple[float, float]:
    """Return the median seconds of a run alone, and the runs a second of as many beside one another as have cores."""
    device = Device(cores)
    ran: list[float] = []

    async def keep_running(until: float) -> None:
        while time.monotonic() < until:
            async with device.turn(session.cores, session.cores / cores) as run:
                start = time.monotonic()
                await run(session.warm_up, lengths)
                ran.append(time.monotonic() - start)

    await keep_running(0.0)
    for _ in range(3):  # the first runs fetch memory
        await keep_running(time.monotonic() + 0.05)
    ran.clear()
    await keep_running(time.monotonic() + SECONDS)
    alone = statistics.median(ran)
    ran.clear()
    start = time.monotonic()
    await asyncio.gather(*(keep_running(start + SECONDS) for _ in range(max(1, cores // session.cores))))
    rate = len(ran) / (time.monotonic() - start)
    device.close()
    return alone, rate


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 # for a person


if __name__ == "__main__":
    sys.exit(main())
