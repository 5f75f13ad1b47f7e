"""Clients that send a body to be refused before it has arrived: what each of them, unchanged, gets of the answer.

Each is a process of its own, `python -m tests.rigs.early_clients <client> <url> <file of the body> <how many>`, which
prints the statuses that it got as JSON, `lost` for those that it did not get.
"""

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

TYPE = "application/octet-stream"
LOST = "lost"
SECONDS = 60
NODE = """
const http = require('http'), fs = require('fs'), [url, file, count] = process.argv.slice(1);
const body = fs.readFileSync(file), found = {};
const note = (what) => { found[what] = (found[what] || 0) + 1; };
const ask = () => new Promise((done) => {
  const finish = (what) => { note(what); done(); };
  let told = false;
  const once = (what) => { if (!told) { told = true; finish(what); } };
  const request = http.request(url, { method: 'POST', headers: { 'Content-Type': '%s' } }, (answer) => {
    answer.resume();
    answer.on('end', () => once(answer.statusCode));
    answer.on('error', () => once('lost'));
  });
  request.on('error', () => once('lost'));
  request.end(body);
});
(async () => { for (let i = 0; i < count; i++) await ask(); console.log(JSON.stringify(found)); process.exit(); })();
""".replace("%s", TYPE)


def _urllib(url: str, file: Path, count: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        request = urllib.request.Request(url, file.read_bytes(), {"Content-Type": TYPE})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                found[str(answer.status)] += 1
        except urllib.error.HTTPError as error:
            error.read()
            found[str(error.code)] += 1
            error.close()
        except OSError:
            found[LOST] += 1
    return found


def _requests(url: str, file: Path, count: int) -> Counter[str]:
    import requests

    found: Counter[str] = Counter()
    with requests.Session() as session:
        for _ in range(count):
            try:
                answer = session.post(url, data=file.read_bytes(), headers={"Content-Type": TYPE}, timeout=SECONDS)
                found[str(answer.status_code)] += 1
            except requests.RequestException:
                found[LOST] += 1
    return found


def _httpx(url: str, file: Path, count: int) -> Counter[str]:
    import httpx

    found: Counter[str] = Counter()
    with httpx.Client(timeout=SECONDS) as client:
        for _ in range(count):
            try:
                found[str(client.post(url, content=file.read_bytes(), headers={"Content-Type": TYPE}).status_code)] += 1
            except httpx.TransportError:
                found[LOST] += 1
    return found


def _aiohttp(url: str, file: Path, count: int) -> Counter[str]:
    import aiohttp

    body = file.read_bytes()

    async def ask() -> Counter[str]:
        found: Counter[str] = Counter()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS)) as session:
            for _ in range(count):
                try:
                    async with session.post(url, data=body, headers={"Content-Type": TYPE}) as answer:
                        await answer.read()
                        found[str(answer.status)] += 1
                except (aiohttp.ClientError, TimeoutError, OSError):
                    found[LOST] += 1
        return found

    return asyncio.run(ask())


def _curl(*options: str) -> Callable[[str, Path, int], Counter[str]]:
    def ask(url: str, file: Path, count: int) -> Counter[str]:
        done = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{exitcode}\n", "--max-time", str(SECONDS * count),
             "-H", f"Content-Type: {TYPE}", *options, "--data-binary", f"@{file}", f"{url}?n=[1-{count}]"],
            capture_output=True, text=True,
        )  # fmt: skip
        got = (line.split() for line in done.stdout.splitlines())
        return Counter(status if failed == "0" else LOST for status, failed in got)

    return ask


def _node(url: str, file: Path, count: int) -> Counter[str]:
    done = subprocess.run(["node", "-e", NODE, url, str(file), str(count)], capture_output=True, text=True)
    return Counter(json.loads(done.stdout))


CLIENTS = {
    "urllib": _urllib,
    "requests": _requests,
    "httpx": _httpx,
    "aiohttp": _aiohttp,
    "curl": _curl(),
    "curl without Expect": _curl("-H", "Expect:"),
    "curl in chunks": _curl("-H", "Transfer-Encoding: chunked"),
    "curl HTTP/1.0": _curl("--http1.0"),
    "curl HTTP/1.0 with Expect": _curl("--http1.0", "-H", "Expect: 100-continue"),
    "node": _node,
}


def installed(client: str) -> bool:
    """Say whether a client can be had here."""
    name = client.partition(" ")[0]
    return name == "urllib" or bool(shutil.which(name) if name in ("curl", "node") else importlib.util.find_spec(name))


def ask(client: str, url: str, file: Path, count: int) -> Counter[str]:
    """Let a client in a process of its own send the body again and again; return how often it got which status."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rigs.early_clients", client, url, file, str(count)],
        capture_output=True, text=True, timeout=SECONDS * count,
    )  # fmt: skip
    return Counter(json.loads(done.stdout)) if done.returncode == 0 else Counter({LOST: count})


if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
