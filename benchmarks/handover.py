"""What handing an image to a confined decoder and taking its picture back costs: `python -m benchmarks.handover`.

The same JPEGs are decoded in this process and by the pool of decoders on the service's event loop, one after another
and 8 at a time, in rounds that alternate. The handover is what the pool takes beyond decoding. Below it stands the
floor: a byte that another process sends back. Processor time is that of this process and of the decoders; that of the
kernel for them counts.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import signal
import socket
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks.servers import jpegs
from benchmarks.service import heading
from contract.input_rules import ImageRule
from service.inputs.image_preprocessing import decode_image
from service.inputs.sandbox import decoder_pool
from service.runtime.memory import return_large_blocks
from service.settings import Settings
from service.telemetry.metrics import Metrics

SIZES = {(128, 96): 64, (500, 375): 224}
"""The width and height of a JPEG, and the side of the picture that is made of it."""
MOST = 16_000_000  # pixels of an image
TOGETHER = 8
POOLS = 4


@dataclass
class Cell:
    """What an image took, in microseconds, a number for each round."""

    wall: list[float] = field(default_factory=list)
    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    @contextlib.contextmanager
    def measured(self, images, pids=()):
        """Measure a block that decodes a number of images, in part in these processes."""
        there, here, start = computed(pids), own(), time.perf_counter()
        yield
        self.wall.append((time.perf_counter() - start) / images * 1e6)
        self.here.append((own() - here) / images * 1e6)
        self.there.append((computed(pids) - there) / images * 1e6)

    def row(self, name, decoding=None):
        """Return a row of the table; `decoding` is the cell of decoding alone, for what comes on top of it."""
        shown = [f"{statistics.median(some):.0f}" for some in (self.wall, self.here, self.there)]
        if decoding:
            over = [pool - alone for pool, alone in zip(self.wall, decoding.wall, strict=True)]
            low, middle, high = statistics.quantiles(over, n=4)
            shown.append(f"{middle:.0f} ({low:.0f} to {high:.0f})")
        else:
            shown.append("")
        return f"| {' | '.join((name, *shown))} |"


def own():
    """Return the processor seconds of this process, all its threads and the kernel's work for it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def computed(pids):
    """Return the processor seconds of other processes so far."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def descendants(pid):
    """Return all processes below one."""
    found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [one for child in found for one in (child, *descendants(child))]


async def measure(size, side, rounds, images, names):
    """Return the cells of one size: decoding alone, and for each pool one after another and several at a time."""
    rule = ImageRule(
        height=side,
        width=side,
        channels=3,
        locate="middle",
        resize=(side, side),
        mean=(0.5,) * 3,
        std=(0.5,) * 3,
    )
    sent = [data for _ in range(images // 3) for data in jpegs(size)]
    alone, cells = Cell(), {name: (Cell(), Cell()) for name in names}
    decoder_pool.IMAGES_PER_PROCESS = 1 << 30  # so that none is replaced, whose time would be lost
    for _ in range(POOLS):  # where the kernel puts a process decides how quick it is
        async with contextlib.AsyncExitStack() as stack:
            pools = {}
            for name in names:
                before = descendants(os.getpid())
                pool = decoder_pool.DecoderPool(Settings(decode=name), Metrics())
                stack.push_async_callback(pool.close)
                await together(pool, sent, rule)
                pools[name] = pool, [pid for pid in descendants(os.getpid()) if pid not in before]
            for _ in range(rounds):
                with alone.measured(len(sent)):
                    for data in sent:
                        decode_image(data, rule, MOST)
                for name, (pool, pids) in pools.items():
                    single, several = cells[name]
                    with single.measured(len(sent), pids):
                        for data in sent:
                            await pool.decode(data, rule)
                    with several.measured(len(sent), pids):
                        await together(pool, sent, rule)
    return alone, cells


async def together(pool, sent, rule):
    """Decode images, TOGETHER at a time."""
    waiting = asyncio.Semaphore(TOGETHER)

    async def one(data):
        async with waiting:
            await pool.decode(data, rule)

    await asyncio.gather(*map(one, sent))


@contextlib.contextmanager
def echo(receive, send):
    """Run a process that sends back what it receives, until the block ends; gives its pid."""
    if not (pid := os.fork()):
        while True:
            receive()
            send()
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def floor(rounds, times):
    """Return the cells of a byte that comes back: by a socket and by an eventfd, blocking and by a reader of a loop."""
    ours, theirs = socket.socketpair()
    asked, answered = os.eventfd(0), os.eventfd(0)
    ways = {
        "socket": (
            ours.fileno(),
            lambda: ours.send(b"1"),
            lambda: ours.recv(1),
            lambda: theirs.recv(1),
            lambda: theirs.send(b"1"),
        ),
        "eventfd": (
            answered,
            lambda: os.eventfd_write(asked, 1),
            lambda: os.eventfd_read(answered),
            lambda: os.eventfd_read(asked),
            lambda: os.eventfd_write(answered, 1),
        ),
    }
    cells = {}
    loop = uvloop.new_event_loop()
    for name, (number, send, receive, receive_there, send_there) in ways.items():
        blocking = cells[f"a byte and back, {name}, blocking"] = Cell()
        by_loop = cells[f"a byte and back, {name}, a reader of the loop"] = Cell()
        with echo(receive_there, send_there) as pid:
            for _ in range(rounds):
                with blocking.measured(times, [pid]):
                    for _ in range(times):
                        send()
                        receive()
                with by_loop.measured(times, [pid]):
                    loop.run_until_complete(by_reader(number, send, receive, times))
    loop.close()
    return cells


async def by_reader(number, send, receive, times):
    """Send a byte and wait for it by a reader of the loop, again and again."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def ready():
        receive()
        came.set_result(None)

    loop.add_reader(number, ready)
    for _ in range(times):
        came = loop.create_future()
        send()
        await came
    loop.remove_reader(number)
    os.set_blocking(number, True)  # as the loop found it


def main():
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="for each of several pools")
    parser.add_argument("--images", type=int, default=90)
    parser.add_argument("--decode", nargs="+", default=["confined", "threads"], help="as REGARD_DECODE")
    given = parser.parse_args()
    return_large_blocks()  # as the service does
    print(heading("python -m benchmarks.handover"))
    print("| microseconds an image | by the clock | processor, here | processor, decoders | beyond decoding |")
    print("|---|---|---|---|---|")
    for name, cell in floor(given.rounds, 1000).items():
        print(cell.row(name))
    for size, side in SIZES.items():
        alone, cells = uvloop.run(measure(size, side, given.rounds, given.images, given.decode))
        what = f"{size[0]} x {size[1]} to {side} x {side}"
        print(alone.row(f"{what}, decoded in this process"))
        for name, (single, several) in cells.items():
            print(single.row(f"{what}, {name}, one after another", alone))
            print(several.row(f"{what}, {name}, {TOGETHER} at a time"))


if __name__ == "__main__":
    main()
