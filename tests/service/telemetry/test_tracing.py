import subprocess
import sys

from tests.conftest import COLD, ROOT, start


def test_an_endpoint_without_the_extra_is_refused_with_what_to_install(light, tmp_path, monkeypatch):
    absent = tmp_path / "opentelemetry/sdk"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = start(light, otlp_endpoint="http://127.0.0.1:4318", program=COLD)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "REGARD_OTLP_ENDPOINT" in said
    assert "pip install --editable '.[tracing]'" in said
    assert "Traceback" not in said


def test_without_an_endpoint_the_client_is_not_imported():
    absent = {"service.telemetry.otel_tracer", "opentelemetry.sdk", "requests"}
    code = f"import service.process.serving, sys; print({absent} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
