"""The rules of the request log. tests/end_to_end/test_http_interface.py tests what it writes and counts."""

from service.http.request_log import REQUEST_ID
from service.store.stored_request import ID_PATTERN


def test_an_id_that_a_client_may_choose_is_one_that_the_store_takes():
    """They are written twice, since the rooms do not know each other; where they differ, storing would fail."""
    assert REQUEST_ID.pattern == ID_PATTERN.pattern
