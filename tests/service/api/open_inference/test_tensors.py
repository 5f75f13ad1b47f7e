import struct

import numpy as np
import pytest

from service.api.open_inference.tensors import Tensor, elements_of_shape, split_binary, strings_of
from service.errors import Malformed, Refusal, Unacceptable
from tests.samples.http_requests import packed


def test_binary_elements_stand_behind_their_lengths():
    assert split_binary("image", packed(b"abc", b"", b"\xff"), 3) == [b"abc", b"", b"\xff"]
    assert Tensor("label", (3, 1), [b"abc", b"", b"\xff"]).binary() == packed(b"abc", b"", b"\xff")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (packed(b"abc"), 2),
        (packed(b"abc", b"d"), 1),
        (packed(b"abc")[:-1], 1),
        (packed(b"abc") + b"\0\0", 1),
        (struct.pack("<I", 2**32 - 1) + b"x", 1),
        (b"", 1),
    ],
)
def test_binary_elements_that_do_not_add_up_are_refused(data, count):
    with pytest.raises(Malformed, match="image: must hold"):
        split_binary("image", data, count)


def test_numbers_are_written_little_endian_and_row_by_row():
    array = np.arange(6, dtype=np.float32).reshape(3, 2).T  # not contiguous
    assert Tensor("x", (2, 3), array).binary() == struct.pack("<6f", 0, 2, 4, 1, 3, 5)
    assert list(Tensor("x", (2, 3), array).data()) == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize("data", [["a", "b", "c"], [["a"], ["b"], ["c"]], [["a", "b"], "c"], [[], [["a"]], "b", "c"]])
def test_strings_may_be_nested_or_flat(data):
    assert strings_of("text", data, 3) == ["a", "b", "c"]


@pytest.mark.parametrize("data", ["abc", None, {}, [1], [["a"], 1], [None], ["a"], ["a", "b", "c", "d"]])
def test_data_that_is_no_list_of_so_many_strings_is_refused(data):
    with pytest.raises(Malformed, match="text: "):
        strings_of("text", data, 3)


def test_strings_nested_a_thousand_times_are_read():
    data = "a"
    for _ in range(1000):
        data = [data]
    assert strings_of("text", data, 1) == ["a"]


@pytest.mark.parametrize(("shape", "count"), [([3], 3), ([3, 1], 3), ([0], 0)])
def test_a_shape_says_how_many_elements_there_are(shape, count):
    assert elements_of_shape("text", shape) == count


@pytest.mark.parametrize(
    ("shape", "refusal"),
    [
        (None, Malformed), ([], Malformed), ([-1], Malformed), (["1"], Malformed), ([1.0], Malformed),
        ([True], Malformed), ([2**31], Malformed), ([1] * 9, Malformed), (3, Malformed),
        ([1, 2], Unacceptable), ([2, 0], Unacceptable), ([1, 1, 1], Unacceptable),
    ],
)  # fmt: skip
def test_other_shapes_are_refused(shape, refusal):
    with pytest.raises(Refusal, match="text: shape") as raised:
        elements_of_shape("text", shape)
    assert type(raised.value) is refusal
