"""Settings that are refused."""

import pytest
from pydantic import ValidationError
from regard.service import KEY_VARIABLE, URL_VARIABLE

from service.settings import OF_CLIENTS, Settings, SettingsError, read_settings
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


def test_what_clients_read_is_passed_over_and_other_names_are_refused(monkeypatch):
    monkeypatch.setenv("REGARD_KEY", "a-key")
    monkeypatch.setenv("REGARD_URL", "http://127.0.0.1:8000")
    assert read_settings() == Settings()
    monkeypatch.setenv("REGARD_KEYS", "keys.txt")
    with pytest.raises(SettingsError, match="REGARD_KEYS: is no setting"):
        read_settings()


def test_the_names_of_clients_are_those_of_ours():
    assert {KEY_VARIABLE, URL_VARIABLE} == OF_CLIENTS
