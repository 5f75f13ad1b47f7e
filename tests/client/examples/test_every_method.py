"""The typed example, which `make types` checks strictly: it runs, and calls every method there is."""

import inspect
import re
import runpy
import sys

import regard

from tests.conftest import ROOT

EXAMPLE = ROOT / "client/examples/every_method.py"
CLASSES = (
    regard.Service, regard.Model, regard.Stream, regard.AsyncService, regard.AsyncModel, regard.AsyncStream,
    regard.Result, regard.Attention, regard.maps.Looked,
)  # fmt: skip


def test_it_calls_every_method():
    text = EXAMPLE.read_text()
    names = {name for one in CLASSES for name in dir(one) if not name.startswith("_")}
    methods = {name for name in names if any(inspect.isroutine(getattr(one, name, None)) for one in CLASSES)}
    assert len(methods) > 20
    assert [name for name in sorted(methods) if not re.search(rf"\.{name}\(", text)] == []


def test_it_runs(client, monkeypatch, capsys):
    monkeypatch.setenv("REGARD_URL", str(client.base_url))
    monkeypatch.setitem(sys.modules, "torch", __import__("torch"))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("2021-03-23") >= 3
    assert "heat (220, 300)" in said
    assert "404 model: " in said
