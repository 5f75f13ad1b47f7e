"""Settings that are refused."""

import re

import pytest
from pydantic import ValidationError
from regard.service import KEY_VARIABLE, URL_VARIABLE

from service.settings import OF_CLIENTS, Settings, SettingsError, canonical_host, read_settings
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
    with pytest.raises(SettingsError, match=r"REGARD_KEYS: is no setting; did you mean REGARD_KEY\?"):
        read_settings()


def test_the_password_of_an_address_is_not_shown(monkeypatch):
    monkeypatch.setenv("REGARD_OTLP_ENDPOINT", "http://user:secret@collector:4318")
    with pytest.raises(SettingsError) as refused:
        read_settings()
    assert str(refused.value).startswith("REGARD_OTLP_ENDPOINT: ")
    assert "secret" not in str(refused.value)


def test_the_prefix_makes_no_two_names_alike(monkeypatch):
    monkeypatch.setenv("REGARD_FOO", "1")
    monkeypatch.setenv("REGARD_PRT", "1")
    with pytest.raises(SettingsError) as refused:
        read_settings()
    assert str(refused.value).splitlines() == [
        "REGARD_FOO: is no setting; docs/settings.md lists them",
        "REGARD_PRT: is no setting; did you mean REGARD_PORT?",
    ]


def test_the_names_of_clients_are_those_of_ours():
    assert {KEY_VARIABLE, URL_VARIABLE} == OF_CLIENTS


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("HOST", "", "at least 1 character"),
        ("ALLOWED_HOSTS", "a.example, models.example.com:8443", "without a port, given 'models.example.com:8443'"),
        ("ALLOWED_HOSTS", "https://a.example", "without a port"),
        ("CORS_ORIGINS", "https://a.example/", "such as https://a.example, given 'https://a.example/'"),
        ("CORS_ORIGINS", "a.example", "a scheme and a host"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, 10.0.0.1/8", "a network such as 10.0.0.0/8, given '10.0.0.1/8'"),
        ("TRUSTED_PROXIES", "proxy.example", "a network"),
    ],
)
def test_a_host_that_could_never_match_is_refused(monkeypatch, name, given, wanted):
    monkeypatch.setenv(f"REGARD_{name}", given)
    with pytest.raises(SettingsError, match=f"^REGARD_{name}: .*{re.escape(wanted)}"):
        read_settings()


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("A.Example", "a.example"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "[::1]"),
        ("0:0:0:0:0:0:0:1", "[::1]"), ("[2001:DB8::0:A]", "[2001:db8::a]"), ("::ffff:192.0.2.1", "[::ffff:c000:201]"),
        ("a.example:80", None), ("[::1]:80", None), ("a:80", None), ("[::1", None), ("1::2::3", None), ("[1.2]", None),
        ("", None), ("fe80::1%eth0", None),
    ],
)  # fmt: skip
def test_an_address_may_be_written_in_several_ways(monkeypatch, given, host):
    found = canonical_host(given)
    assert (found or "").replace("192.0.2.1", "c000:201") == (host or "")  # newer versions of Python write the former
    monkeypatch.setenv("REGARD_ALLOWED_HOSTS", f"a.example,{given}")
    if host:
        assert read_settings().hosts == {"a.example", found}
    elif given:
        with pytest.raises(SettingsError, match="REGARD_ALLOWED_HOSTS: each must be a host name or address"):
            read_settings()


def test_the_hosts_of_one_machine_are_its_own_however_they_are_written():
    local = Settings(allowed_hosts="127.0.0.1,::1,LOCALHOST")
    assert local.for_operators() is local
    assert Settings(allowed_hosts="127.0.0.1,localhost").for_operators().allowed_hosts is None


def test_hosts_and_origins(monkeypatch):
    monkeypatch.setenv("REGARD_ALLOWED_HOSTS", "a.example,127.0.0.1,[::1]")
    for origins in ("*", "https://a.example,http://localhost:3000,http://[::1]:8000"):
        monkeypatch.setenv("REGARD_CORS_ORIGINS", origins)
        assert read_settings().cors_origins == origins


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1", "[::1]"}),
        ({"host": "localhost"}, {"localhost", "127.0.0.1", "[::1]"}),
        ({"host": "127.0.0.2"}, {"localhost", "127.0.0.1", "[::1]", "127.0.0.2"}),
        ({"allowed_hosts": "a.example"}, {"a.example"}),
        ({"host": "0.0.0.0"}, None),
        ({"host": "192.0.2.1"}, None),
        ({"host": "regard.internal"}, None),
    ],
)
def test_what_only_its_machine_reaches_answers_to_no_other_host(given, hosts):
    found = Settings(**given).with_hosts().allowed_hosts
    assert (found and set(found.split(","))) == hosts
