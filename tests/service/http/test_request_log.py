"""The rules of the request log. tests/end_to_end/test_http_interface.py tests what it writes and counts."""

import secrets

from service.http.request_log import REQUEST_ID
from service.store.stored_request import ID_PATTERN


def test_an_id_that_the_service_makes_is_one_that_the_store_takes():
    made = secrets.token_hex(16)
    assert REQUEST_ID.fullmatch(made)
    assert ID_PATTERN.fullmatch(made)
