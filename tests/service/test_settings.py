"""Settings that are refused."""

import pytest
from pydantic import ValidationError

from service.settings import Settings, read_settings
from tests.conftest import start


@pytest.mark.parametrize("endpoint", ["collector:4318", "http://user:password@collector", "ftp://collector"])
def test_an_endpoint_that_is_no_address_or_holds_a_password_is_refused(endpoint):
    with pytest.raises(ValidationError):
        Settings(otlp_endpoint=endpoint)


def test_the_ports_must_differ(artifacts):
    process = start(artifacts, port=18765, admin_port=18765, probe_port=18765)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "REGARD_ADMIN_PORT: must be another port than REGARD_PORT, given 18765 for both" in said
    assert "REGARD_PROBE_PORT: must be another port than REGARD_PORT, given 18765 for both" in said
    assert "REGARD_PROBE_PORT: must be another port than REGARD_ADMIN_PORT, given 18765 for both" in said


def test_several_ports_may_be_free_ones(monkeypatch):
    for name in ("PORT", "ADMIN_PORT", "PROBE_PORT"):
        monkeypatch.setenv(f"REGARD_{name}", "0")
    assert read_settings().probe_port == 0
