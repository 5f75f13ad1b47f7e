"""What draws attention; what it is as arrays is in test_maps."""

import numpy as np
import pytest
import regard
from regard.reading import read_attention

from tests.client.conftest import looked, mapped

VALUES = np.random.default_rng(0).random((2, 3, 6))


def test_it_is_printed_as_a_table_and_shown_by_its_shapes():
    look = read_attention(looked(mapped(VALUES), mapped(VALUES[:, :, :4], "decoder")))
    assert str(look) == str(look.table())
    shapes = "cross (2, 3, 6), decoder (2, 3, 4)"
    assert repr(look) == f"<attention by raw: 2 maps, heads, queries, keys: {shapes}>"
    assert str(read_attention(looked())) == "<attention by raw: 0 maps, heads, queries, keys: >"


def test_it_is_an_array_where_its_maps_have_one_shape():
    look = read_attention(looked(mapped(VALUES), mapped(2 * VALUES)))
    np.testing.assert_array_equal(np.asarray(look), np.float32([VALUES, 2 * VALUES]))
    assert np.asarray(look.maps[0], np.float64).dtype == np.float64
    copied = np.array(look.maps[0])
    copied[:] = 0
    assert look.maps[0].values.any()
    with pytest.raises(regard.BadInput, match="attention: must have maps of one shape"):
        np.asarray(read_attention(looked(mapped(VALUES), mapped(VALUES[:, :1]))))


def test_the_other_side_draws_itself_too():
    json = looked(mapped(VALUES))
    look = read_attention({**json, "against": json})
    assert look.against.table() == look.table()
    assert isinstance(look.against, regard.Attention)
