import math

import numpy as np
import pytest
import regard


@pytest.mark.parametrize("key", ["known\n", " known", "knöwn", "kno\x00wn"])
def test_a_key_that_no_header_holds_is_refused_and_not_said(key):
    with pytest.raises(regard.BadInput, match="key: must be") as caught:
        regard.Service("http://127.0.0.1:1", key)
    assert key.strip() not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_address_holds_no_password():
    with pytest.raises(regard.BadInput, match="no password") as caught:
        regard.Service("https://bob:hunter2@host", "known")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "", 3, "http://[", "http://a b"])
def test_an_address_is_an_address(url):
    with pytest.raises(regard.RegardError, match=r"url: must begin with http://|nothing answers"):
        regard.connect(url)


def test_an_option_that_is_none_is_named_with_those_that_are():
    with pytest.raises(
        regard.BadInput, match="timeuot: is no option of connect; known are url, key, timeout, patience"
    ):
        regard.Service("http://127.0.0.1:1", timeuot=1)
    for connect in (regard.connect, regard.AsyncService):
        with pytest.raises(TypeError, match="unexpected keyword argument 'timeuot'"):
            connect("http://127.0.0.1:1", timeuot=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("timeout", "patience") for value in ("x", True, -1, math.nan, [1])]
    + [("timeout", 0), ("timeout", math.inf)],
)
def test_seconds_are_numbers(name, value):
    with pytest.raises(regard.BadInput, match=f"{name}: must be a .*number of seconds"):
        regard.Service("http://127.0.0.1:1", **{name: value})


@pytest.mark.parametrize("options", [{"timeout": np.float32(2), "patience": 0}, {"timeout": 1, "patience": math.inf}])
def test_seconds_may_be_any_number(options):
    regard.Service("http://127.0.0.1:1", **options).close()


@pytest.mark.parametrize("given", [3, "nowhere.pem", "a\0b"])
def test_what_verifies_is_a_file(given):
    with pytest.raises(regard.BadInput, match="verify: must be True, False or the path"):
        regard.Service("https://127.0.0.1:1", verify=given)


@pytest.mark.parametrize("key", [3, b"known"])
def test_a_key_is_a_string(key):
    with pytest.raises(regard.BadInput, match="key: must be a string"):
        regard.Service("http://127.0.0.1:1", key)
