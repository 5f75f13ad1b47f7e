"""A container that allows too little memory says so before the system ends it."""

import pytest
from structlog.testing import capture_logs

from service.process import memory_limit


@pytest.mark.parametrize(
    ("said", "warned"),
    [("67108864", [64]), ("268435456", []), ("max", []), ("9223372036854771712", []), (None, [])],
)
def test_a_limit_below_what_the_service_needs_is_warned_of(tmp_path, monkeypatch, said, warned):
    file = tmp_path / "limit"
    if said:
        file.write_text(f"{said}\n")
    monkeypatch.setattr(memory_limit, "LIMITS", (tmp_path / "of another version", file))
    with capture_logs() as logs:
        memory_limit.warn_of_little_memory()
    assert [line["mebibytes"] for line in logs] == warned
    assert all("allow the container more" in line["do"] for line in logs)
