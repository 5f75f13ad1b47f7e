import math
import tracemalloc
import typing

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from service.errors import TooLarge
from service.explanations import drawing
from service.explanations.colormaps import AGAINST_AND_FOR, COLORMAPS, SIGNED, Colormap
from service.explanations.drawing import Panel, Style, overlay, overlay_size
from service.explanations.lettering import GLYPHS, LONGEST_LABEL, MISSING_GLYPH, font_of, label
from service.explanations.matrix_drawing import TEXT_SHARE_OF_CELL, cell_side, lay_out, matrix, matrix_size

LIMIT = 10**8


def plain(colormap="viridis", opacity=0.6):
    """Return the style of heat from the least value to the largest over the image as it was sent."""
    return Style(colormap, opacity, ground="photo", scale="full")


OPAQUE = plain("gray", 1.0)
BOXES = [(0, 0, 60, 40), (10, 5, 45, 33), (12.4, 3.7, 40.1, 30.2), (-20.3, -7, 51.5, 70), (-1e6, -1e6, 1.1e6, 1e6)]


def pixels(image):
    assert image.mode == "RGB"
    return np.asarray(image).astype(float)


def grain(width=60, height=40, mode="RGB", low=0, high=256):
    noise = np.random.default_rng(0).integers(low, high, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(noise).convert(mode)


def black(width, height):
    return Image.new("L", (width, height))


def maps(count, rows=3, columns=5):
    return [Panel(f"layer {n}", np.random.default_rng(n).random((rows, columns), np.float32)) for n in range(count)]


def drawn(image, box, values, style=OPAQUE):
    return pixels(overlay(image, box, [Panel("", values)], style, LIMIT))


def heat(picture):
    """Recover 0 to 1 from what OPAQUE draws on black, which is grey of that level, weighed by it."""
    return np.sqrt(picture[:, :, 0] / 255)


def inside(box, width, height):
    x, y = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
    return (x >= box[0]) & (x < box[2]) & (y >= box[1]) & (y < box[3])


def interpolated(values, box, width, height):
    """Return the values scaled to 0 to 1, between the middles of cells in straight lines, at the middles of pixels."""
    values = (values - values.min()) / (values.max() - values.min())
    rows, columns = values.shape
    cells_x = box[0] + (np.arange(columns) + 0.5) * (box[2] - box[0]) / columns
    cells_y = box[1] + (np.arange(rows) + 0.5) * (box[3] - box[1]) / rows
    wide = np.array([np.interp(np.arange(width) + 0.5, cells_x, row) for row in values])
    return np.array([np.interp(np.arange(height) + 0.5, cells_y, column) for column in wide.T]).T


def test_every_colour_map_has_256_levels_and_is_in_the_type():
    assert set(typing.get_args(Colormap)) == set(COLORMAPS)
    for table in COLORMAPS.values():
        assert table.shape == (256, 3)
        assert table.dtype == np.uint8
        assert np.abs(np.diff(table.astype(int), axis=0)).max() <= 9, "neighbours look alike"
        assert len(np.unique(table, axis=0)) > 240
        assert not table.flags.writeable


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("viridis", ["440154", "21918c", "fde725"]),
        ("magma", ["000004", "b73779", "fcfdbf"]),
        ("inferno", ["000004", "bc3754", "fcffa4"]),
        ("turbo", ["30123b", "a4fc3c", "7a0403"]),
        ("gray", ["000000", "808080", "ffffff"]),
    ],
)
def test_the_ends_and_the_middle_of_colour_maps_are_the_known_ones(name, ends):
    assert [COLORMAPS[name][level].tobytes().hex() for level in (0, 128, 255)] == ends


@pytest.mark.parametrize("size", [(60, 40), (28, 28), (4, 3), (1, 1), (1, 300), (501, 333)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_one_panel_has_the_size_of_the_image_whatever_its_title(size, mode):
    image = grain(*size, mode)
    picture = pixels(overlay(image, (0, 0, *size), [Panel("layer 0", np.eye(3))], plain(), LIMIT))
    assert picture.shape == (size[1], size[0], 3)
    assert overlay_size(*size, 1) == size


@pytest.mark.parametrize("box", [*BOXES, (70, 0, 90, 40), (-9, -9, 0, 0), (20, 20, 20, 20), (30.6, 30.6, 31.4, 31.4)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_outside_the_box_the_image_is_as_it_was(box, mode):
    image = grain(mode=mode)
    picture = drawn(image, box, np.array([[2.0, 2.0], [1.0, 1.0]]), plain("viridis", 0.9))
    changed = (picture != np.asarray(image.convert("RGB"))).any(axis=2)
    assert not changed[~inside(box, 60, 40)].any()
    assert changed.any() == inside(box, 60, 40).any()


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("shape", [(3, 5), (7, 7), (1, 4), (6, 1)])
def test_heat_is_interpolated_between_the_middles_of_patches(box, shape):
    values = np.random.default_rng(1).random(shape) * 0.01 + 0.3
    found = heat(drawn(black(60, 40), box, values))
    expected = interpolated(values, box, 60, 40) * inside(box, 60, 40)
    assert np.abs(found**2 - expected**2).max() < 2.6 / 255, "of rounding; a shift by a quarter of a pixel is more"


@pytest.mark.parametrize("style", [plain(), plain("magma", 0.25), plain("turbo", 1.0), plain("inferno", 0.5)])
def test_the_hotter_the_more_of_the_colour_and_the_less_of_the_image(style):
    box, values = (5, 5, 55, 38), np.random.default_rng(2).random((4, 6))
    share = interpolated(values, box, 60, 40)[:, :, None]
    colour = COLORMAPS[style.colormap][np.rint(share[:, :, 0] * 255).astype(int)]
    image = np.asarray(grain())
    expected = image * (1 - style.opacity * share) + colour * style.opacity * share
    error = (drawn(grain(), box, values, style) - expected)[inside(box, 60, 40)]
    assert np.abs(error).max() < 3
    assert abs(error.mean()) < 0.1, "rounded, and not always down"


@pytest.mark.parametrize("box", [(10, 5, 45, 33), (3.3, 1.9, 57.2, 39.4)])
@pytest.mark.parametrize("cell", [(1, 1), (1, 3), (2, 2)])
def test_heat_is_centred_on_its_patch(box, cell):
    values = np.zeros((4, 6))
    values[cell] = 1
    found = heat(drawn(black(60, 40), box, values))
    y, x = (np.indices(found.shape) + 0.5).reshape(2, -1) @ found.ravel() / found.sum()
    assert x == pytest.approx(box[0] + (cell[1] + 0.5) * (box[2] - box[0]) / 6, abs=0.1)
    assert y == pytest.approx(box[1] + (cell[0] + 0.5) * (box[3] - box[1]) / 4, abs=0.1)


@pytest.mark.parametrize(
    ("box", "corner", "hot", "cold"),
    [
        ((20, 10, 50, 30), (0, 0), (12, 22), (28, 48)),
        ((20, 10, 50, 30), (0, 4), (12, 48), (28, 22)),
        ((20, 10, 50, 30), (2, 0), (28, 22), (12, 48)),
        ((-40, -30, 60, 40), (2, 4), (39, 59), (0, 0)),
        ((0, 0, 160, 140), (0, 0), (0, 0), (39, 59)),
    ],
)
@pytest.mark.parametrize("name", COLORMAPS)
def test_the_hottest_place_is_the_last_colour_and_the_coldest_is_the_image(box, corner, hot, cold, name):
    values = np.full((3, 5), 0.2)
    values[corner] = 0.7
    picture = drawn(grain(), box, values, plain(name, 1.0))
    assert (picture[hot] == COLORMAPS[name][255]).all()
    assert (picture[cold] == np.asarray(grain())[cold]).all()


def test_without_opacity_the_picture_is_the_image():
    values = np.random.default_rng(0).random((7, 7))
    assert (drawn(grain(), (3, 3, 40, 40), values, plain(opacity=0)) == np.asarray(grain())).all()


@pytest.mark.parametrize("value", [0.0, 1 / 49, 1.0, -3.0, 5e-324])
def test_a_constant_map_is_cold_everywhere(value):
    assert (drawn(grain(), (3, 3, 40, 40), np.full((7, 7), value), plain()) == np.asarray(grain())).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_drawn_as_zero(value):
    values, cleaned = np.eye(3), np.eye(3)
    values[0, 1], cleaned[0, 1] = value, 0
    assert (drawn(grain(), (3, 3, 40, 40), values) == drawn(grain(), (3, 3, 40, 40), cleaned)).all()
    shown = [matrix([Panel("", one)], "abc", "abc", Style(), LIMIT) for one in (values, cleaned)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_kind_of_float_is_drawn_and_none_is_changed(kind):
    values = np.arange(9, dtype=kind).reshape(3, 3)
    image = grain()
    picture = drawn(image, (3, 3, 40, 40), values)
    assert (picture == drawn(grain(), (3, 3, 40, 40), values.astype(np.float64))).all()
    assert np.array_equal(values, np.arange(9).reshape(3, 3))
    assert image == grain()


def test_a_patch_less_than_a_pixel_is_averaged_and_not_left_out():
    values = np.zeros((140, 140))
    values[:, ::4] = 1
    found = heat(drawn(black(14, 14), (0, 0, 14, 14), values))
    assert found == pytest.approx(np.full((14, 14), 0.25), abs=0.06)


@pytest.mark.parametrize("band", [1, 7, 60, 130])
def test_a_picture_drawn_in_bands_shows_no_seams(band, monkeypatch):
    whole = drawn(grain(), (3, 3, 55, 40), maps(1)[0].values)
    monkeypatch.setattr(drawing, "BAND_PIXELS", band)
    assert (drawn(grain(), (3, 3, 55, 40), maps(1)[0].values) == whole).all()


def test_a_box_of_any_size_costs_no_more_memory_than_the_image():
    tracemalloc.start()
    drawn(black(28, 28), (-1e9, -1e9, 1e9, 1e9), np.eye(7))
    small = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    large = black(2000, 2000)
    overlay(large, (0, 0, 2000, 2000), [Panel("", np.eye(7))], plain(), LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert small < 2**20
    assert peak < 3 * 2000 * 2000 * 3, "thrice the pixels as RGB: them, a copy on the way, and bands"


@pytest.mark.parametrize(("count", "columns"), [(2, 2), (3, 2), (4, 2), (5, 3), (9, 3), (12, 4)])
@pytest.mark.parametrize("size", [(150, 100), (300, 220)])
def test_each_panel_is_drawn_as_it_would_be_alone_in_a_nearly_square_grid(count, columns, size):
    image, box, panels = grain(*size), (-10.0, 10.5, 110.0, 95.5), maps(count)
    picture = pixels(overlay(image, box, panels, plain(), LIMIT))
    tiles = drawing.tiles_of(*size, count)
    assert picture.shape[1::-1] == overlay_size(*size, count)
    corners = [tiles.corner(index) for index in range(count)]
    assert len({left for left, _ in corners}) == columns
    for (left, top), panel in zip(corners, panels, strict=True):
        alone = pixels(overlay(image, box, [panel], plain(), LIMIT))
        assert (picture[top : top + size[1], left : left + size[0]] == alone).all()
        picture[top : top + size[1], left : left + size[0]] = 255
        title = picture[top - tiles.strip : top, left : left + size[0]]
        assert title.min() < 100, "a title stands above it"
        assert title[-2:].min() == 255, "and does not touch it"
        title[:] = 255
    assert picture.min() == 255, "all else is white"


@pytest.mark.parametrize(
    ("size", "factor"), [((28, 28), 5), ((4, 3), 30), ((119, 10), 2), ((120, 10), 1), ((1, 1), 120)]
)
def test_panels_of_a_tiny_image_are_as_many_times_larger_as_titles_need(size, factor):
    image, box = grain(*size), (size[0] / 4, size[1] / 4, size[0], size[1] * 0.75)
    picture = pixels(overlay(image, box, maps(2), plain(), LIMIT))
    assert picture.shape[1::-1] == overlay_size(*size, 2)
    left, top = drawing.tiles_of(*size, 2).corner(1)
    panel = picture[top : top + size[1] * factor, left : left + size[0] * factor]
    large = np.asarray(image).repeat(factor, 0).repeat(factor, 1)
    within = inside([edge * factor for edge in box], size[0] * factor, size[1] * factor)
    assert (panel == large)[~within].all()
    assert (panel != large)[within].any()
    assert (picture[top:, left + size[0] * factor :] == 255).all()


def test_a_long_title_ends_within_its_panel():
    panels = [Panel("layer 11, head 11, query 197, of the encoder", np.eye(3)) for _ in range(2)]
    picture = pixels(overlay(grain(130, 20), (0, 0, 130, 20), panels, plain(), LIMIT))
    tiles = drawing.tiles_of(130, 20, 2)
    assert picture[: tiles.strip, tiles.text + 130 : tiles.corner(1)[0]].min() == 255
    assert picture[: tiles.strip, -tiles.text :].min() == 255


def test_too_large_a_picture_is_refused_before_anything_is_made_of_it(monkeypatch):
    image, panels, one = grain(600, 400), maps(4), Panel("", np.ones((90, 70)))
    for name in ("resize", "convert", "paste", "save"):
        monkeypatch.setattr(Image.Image, name, lambda *_, **__: pytest.fail("it was"))
    monkeypatch.setattr(Image, "new", lambda *_, **__: pytest.fail("it was"))
    asked = "; ask for a smaller width, or for fewer layers, heads, queries or inputs$"
    with pytest.raises(TooLarge, match=r"^png: at most 239999 pixels, this one would have 600 x 400" + asked):
        overlay(image, (0, 0, 600, 400), panels[:1], plain(), 239_999)
    most = math.prod(overlay_size(600, 400, 4)) - 1
    with pytest.raises(TooLarge, match=rf"^png: at most {most} pixels, this one would have \d+ x \d+" + asked):
        overlay(image, (0, 0, 600, 400), panels, plain(), most)
    with pytest.raises(TooLarge, match=r"^png: at most 1000000 pixels, this one would have \d+ x \d+" + asked):
        matrix([one], ["q"] * 90, ["k"] * 70, Style(), 10**6)


def test_a_picture_as_large_as_the_limit_is_drawn():
    image = grain(600, 400)
    assert overlay(image, (0, 0, 600, 400), maps(1), plain(), 240_000)
    assert overlay(image, (0, 0, 600, 400), maps(4), plain(), math.prod(overlay_size(600, 400, 4)))
    assert matrix(maps(3), "abc", "abcde", Style(), math.prod(matrix_size(3, 5, 3)))


TEXTS = {
    "plain": ["token", "[CLS]"],
    "invisible": ["", " ", "  a", "\n", "\t\t", "\r\n", "\x00\x07\x1b", "\x7f", "\u200b", "\u202e abc", "\ufeff"],
    "beyond": ["שלום", "مرحبا", "漢字", "😀", "👩‍👩‍👧", "e\u0301", "\u0301", "\ud800", "ﷺ", "é", "ﬁ", "½"],
    "long": ["W" * 24, "W" * 400, "\n" * 24, "漢" * 99, "i" * 25, "internationalization of everything"],
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("count", [1, 3])
def test_labels_of_every_kind_are_drawn_within_the_margins(kind, count):
    texts = TEXTS[kind]
    panels = maps(count, len(texts), len(texts))
    picture = pixels(matrix(panels, texts, texts, Style(), LIMIT))
    margin = lay_out(texts, texts, count).text - 1
    edges = [picture[:margin], picture[-margin:], picture[:, :margin], picture[:, -margin:]]
    assert [edge.min() for edge in edges] == [255] * 4
    assert picture.shape[0] * picture.shape[1] <= math.prod(matrix_size(len(texts), len(texts), count))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", '""'),
        (" the", "·the"),
        ("\u00a0", "·"),
        ("▁", "·"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("Übergrößen", "Ubergrossen"),
        ("e\u0301", "e"),
        ("\u2013", "-"),
        ("½", "1\u20442"),
        ("\u00b4…™", "\u00b4…™"),
        ("漢字", "\ufffd\ufffd"),
        ("ok 😀", "ok·\ufffd"),
        ("אב", "\ufffd\ufffd"),
        ("\x00", "\ufffd"),
        ("\u202e", "\ufffd"),
        ("\u0301", "\ufffd"),
        ("x" * 24, "x" * 24),
        ("x" * 25, "x" * 23 + "…"),
        ("\n" * 13, "\\n" * 11 + "\\…"),
        ("x" * 10**6, "x" * 23 + "…"),
    ],
)
def test_a_label_replaces_what_the_font_cannot_show(text, shown):
    assert label(text) == shown
    assert label(shown) == shown


def test_a_title_has_spaces():
    spaced, solid, dotted = (
        matrix([Panel(title, np.ones((1, 1)))], "q", "k", Style(), LIMIT) for title in ("a b", "a\u00a0b", "a·b")
    )
    assert spaced == solid != dotted


@pytest.mark.parametrize("kind", TEXTS)
def test_tokens_are_drawn_as_their_labels(kind):
    texts = TEXTS[kind]
    labels, panels = [label(text) for text in texts], maps(1, len(texts), len(texts))
    assert matrix(panels, texts, texts, Style(), LIMIT) == matrix(panels, labels, labels, Style(), LIMIT)


@pytest.mark.parametrize("size", [9, 12, 17, 28, 143])
def test_the_font_has_every_glyph_and_a_box_for_others_none_wider_than_it_is_high(size):
    font = font_of(size)
    missing = bytes(font.getmask(MISSING_GLYPH))
    assert any(missing)
    for glyph in GLYPHS:
        assert bytes(font.getmask(glyph)) != missing, glyph
        assert any(font.getmask(glyph)), glyph
    for text in [*GLYPHS, MISSING_GLYPH, *(a + b for a in "AWm…" for b in "AWm…")]:
        assert font.getlength(text) <= size * len(text), text


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 40), (40, 1), (11, 24), (10, 30), (3, 128)])
@pytest.mark.parametrize(("name", "count"), [("viridis", 1), ("gray", 2), ("turbo", 3)])
def test_every_cell_has_the_colour_of_its_value(queries, keys, name, count):
    rows, columns = [f"q{n}" for n in range(queries)], [f"key {n}" for n in range(keys)]
    levels = np.random.default_rng(0).integers(0, 256, (count, queries, keys))
    levels[:, 0, 0] = 255
    panels = [Panel(f"layer {n}", (n + 1) * levels[n] / 255) for n in range(count)]
    picture = pixels(matrix(panels, rows, columns, Style(name, 0.1), LIMIT))
    layout = lay_out(rows, columns, count)
    reach = layout.cell // 2 - 1
    for place in np.ndindex(levels.shape):
        x, y = layout.centre(*place)
        cell = picture[y - reach : y + reach + 1, x - reach : x + reach + 1]
        assert (cell == COLORMAPS[name][levels[place]]).all()
    assert picture.shape[:2] == layout.tiles.size[::-1]


@pytest.mark.parametrize(("values", "greys"), [([0.5, 1.0], [128, 255]), ([-0.1, 0.3], [0, 255])])
def test_cells_go_from_zero_and_not_from_the_least(values, greys):
    picture = pixels(matrix([Panel("", np.array([values]))], "a", "bc", Style("gray"), LIMIT))
    assert [picture[lay_out("a", "bc", 1).centre(0, 0, key)[::-1]][0] for key in range(2)] == greys


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_matrix_with_nothing_in_it_is_cold(value):
    layout = lay_out("ab", "cd", 1)
    picture = pixels(matrix([Panel("", np.full((2, 2), value))], "ab", "cd", Style(), LIMIT))
    assert (picture[layout.centre(0, 1, 1)[::-1]] == COLORMAPS["viridis"][0]).all()


def below(values, signed=False):
    """Return what stands below the cells of one row."""
    keys = ["k"] * len(values)
    picture = pixels(matrix([Panel("", np.array([values]), signed)], "q", keys, Style("magma"), LIMIT))
    layout = lay_out("q", keys, 1)
    return picture[layout.corner(0)[1] + layout.cell + 1 :]


def bar_of(picture, table):
    """Return the levels of a table's colours along the bar in a picture."""
    level = {tuple(colour): index for index, colour in enumerate(table.tolist()) if colour != [255, 255, 255]}
    found = [[level[tuple(p)] for p in row if tuple(p) in level] for row in picture.astype(int).tolist()]
    return max(found, key=len)


def test_the_colour_bar_goes_from_the_first_to_the_last_colour():
    bar = bar_of(below(np.ones(3)), COLORMAPS["magma"])
    assert (bar[0], bar[-1]) == (0, 255)
    assert len(bar) > 100
    assert bar == sorted(bar)


def test_the_colour_bar_has_the_number_of_the_maximum():
    values = np.linspace(0.1, 1, 5)
    assert (below(values) == below(values * [0.5, 1, 1, 1, 1])).all()
    assert (below(values) != below(values * 2)).any()


def test_each_label_stands_beside_its_row_or_above_its_column():
    rows, columns = [".", ".", "WWW", "."], ["WWWWWW", *"....."]
    layout = lay_out(rows, columns, 1)
    picture = 255 - pixels(matrix([Panel("", np.ones((4, 6)))], rows, columns, OPAQUE, LIMIT))[:, :, 0]
    left, top = layout.corner(0)
    beside = picture[top : top + 4 * layout.cell, : left - 1].reshape(4, layout.cell, -1).sum(axis=(1, 2))
    above = picture[: top - 1, left : left + 6 * layout.cell].reshape(top - 1, 6, layout.cell).sum(axis=(0, 2))
    assert beside.argmax() == 2
    assert above.argmax() == 0
    assert beside.min() > 0
    assert above.min() > 0


def ink(part):
    rows, columns = np.nonzero(part < 128)
    return part[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def test_labels_of_columns_are_turned_to_be_read_upwards_unless_all_are_short():
    pen = ImageDraw.Draw(page := Image.new("L", (200, 100), 255))
    for key, turned in (("query", True), ("k", False)):
        layout = lay_out(["q"], [key], 1)
        picture = pixels(matrix([Panel("", np.ones((1, 1)))], ["q"], [key], OPAQUE, LIMIT))[:, :, 0]
        left, top = layout.corner(0)
        found = ink(picture[: top - 1, left - 1 : left + layout.cell])
        page.paste(255, (0, 0, *page.size))
        pen.text((50, 50), key, "#1c2126", ImageFont.load_default(layout.text), "ls")
        expected = ink(np.asarray(page, float))
        if turned:
            found = np.rot90(found, -1)
        assert found.shape == expected.shape
        assert np.abs(found - expected).mean() < 20


def test_a_matrix_is_readable_and_not_too_large():
    assert cell_side(10, 30) == cell_side(11, 24) == 28
    words = ["international"] * 128
    width, height = lay_out(words, words, 1).tiles.size
    assert max(width, height) < 3000
    assert round(cell_side(2000, 2000) * TEXT_SHARE_OF_CELL) >= 9, "pixels, of text"
    assert LONGEST_LABEL == 24


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_a_matrix_without_cells_is_drawn(shape):
    queries, keys = ["q"] * shape[0], ["k"] * shape[1]
    picture = matrix([Panel("nothing", np.zeros(shape))], queries, keys, Style(), math.prod(matrix_size(*shape, 1)))
    assert math.prod(pixels(picture).shape[:2]) <= math.prod(matrix_size(*shape, 1))


def test_labels_that_are_not_as_many_as_values_are_refused():
    with pytest.raises(ValueError, match=r"labels: as many as values, \(2, 3\), given \(3, 2\)"):
        matrix([Panel("", np.ones((2, 3)))], "abc", "ab", Style(), LIMIT)


# of a given width


@pytest.mark.parametrize("width", [64, 100, 377, 1000])
@pytest.mark.parametrize("size", [(28, 28), (400, 300), (50, 2000), (2000, 3)])
@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_a_picture_is_as_wide_as_asked_and_its_panels_have_the_shape_of_the_image(width, size, count):
    assert overlay_size(*size, count, width)[0] == width
    if count > 1:
        tiles = drawing.tiles_of(*size, count, width)
        assert tiles.height == max(1, round(tiles.width * size[1] / size[0]))
        assert tiles.width >= drawing.LEAST_PANEL_WIDTH or tiles.columns == 1, "so that titles can be read"
        assert all(tiles.corner(index)[0] + tiles.width <= width for index in range(count))


@pytest.mark.parametrize(
    ("width", "size", "count"),
    [(64, (28, 28), 1), (100, (400, 300), 7), (377, (50, 2000), 1), (1000, (2000, 3), 30), (377, (28, 28), 2)],
)
def test_a_picture_has_the_size_that_was_announced_and_a_title_over_each_panel(width, size, count):
    picture = overlay(grain(*size), (0, 0, *size), maps(count), plain(), LIMIT, width)
    assert picture.size == overlay_size(*size, count, width)
    tiles, sheet = drawing.tiles_of(*size, count, width), pixels(picture)
    for index in range(count if count > 1 else 0):
        left, top = tiles.corner(index)
        assert sheet[top - tiles.strip + 1 : top, left : left + tiles.width].min() < 160, "its title"


@pytest.mark.parametrize("width", [90, 240])
def test_a_scaled_picture_has_the_heat_where_the_large_one_has_it(width):
    box, values = (12.0, 4.0, 108.0, 76.0), np.random.default_rng(4).random((4, 6))
    picture = overlay(black(120, 80), box, [Panel("", values)], OPAQUE, LIMIT, width)
    scaled = [edge * width / 120 for edge in box]
    expected = interpolated(values, scaled, *picture.size) * inside(scaled, *picture.size)
    assert np.abs(heat(pixels(picture)) ** 2 - expected**2).max() < 4 / 255


@pytest.mark.parametrize("count", [1, 12])
def test_a_large_image_is_scaled_before_anything_is_drawn(monkeypatch, count):
    heated, seen = drawing._heated, []
    monkeypatch.setattr(drawing, "_heated", lambda image, *rest: seen.append(image.size) or heated(image, *rest))
    overlay(grain(2000, 1500), (0, 0, 2000, 1500), maps(count), plain(), 10**6, 600)
    assert len(seen) == count
    assert max(max(size) for size in seen) <= 600


# signed maps


def signed(image, values, box=(0, 0, 60, 40), style=OPAQUE):
    return pixels(overlay(image, box, [Panel("", values, signed=True)], style, LIMIT))


def redder(picture, image):
    """Return how much more red than blue was added to each pixel."""
    added = picture - np.asarray(image.convert("RGB"))
    return added[:, :, 0] - added[:, :, 2]


@pytest.mark.parametrize("picture", [grain(), black(60, 40), Image.new("RGB", (60, 40), "white")])
def test_what_speaks_for_the_answer_is_red_what_speaks_against_it_is_blue_and_zero_is_the_image(picture):
    values = np.zeros((1, 6))
    values[0, [1, 4]] = 0.5, -1.0
    found = signed(picture, values)
    added = redder(found, picture)
    assert added[:, 10:20].mean() > 30, "for"
    assert added[:, 40:50].mean() < -30, "against"
    unchanged = (found == np.asarray(picture.convert("RGB"))).all(axis=2)
    assert unchanged[:, :4].all(), "beside zeros alone"
    assert unchanged[:, 55:].all()
    assert not unchanged[:, 11:19].any()


@pytest.mark.parametrize("opacity", [0.25, 1.0])
def test_opacity_grows_with_the_size_of_a_value_whatever_its_sign(opacity):
    values = np.array([[-1.0, 0.5]])
    share = -1 + 1.5 * np.clip((np.arange(60) + 0.5 - 15) / 30, 0, 1)
    ends = [np.array(list(bytes.fromhex(one)), float) for one in ("1f77d0", "e03c28")]
    colour = np.where(share[:, None] < 0, *ends)
    heat = opacity * np.abs(share)[:, None]
    found = signed(Image.new("RGB", (60, 40), "#808080"), values, style=plain(opacity=opacity))
    assert np.abs(found - (128 * (1 - heat) + colour * heat)).max() < 2.5, "of rounding to levels"


@pytest.mark.parametrize("factor", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("least", [-1.0, -0.1, 0.0, 1.0])
def test_the_range_of_a_signed_map_is_as_far_below_zero_as_above(factor, least):
    """The largest size has all of the opacity, and a value of the other sign has its share of that, not all."""
    values = factor * np.array([[least, 1.0]])
    found = signed(black(60, 40), values)
    assert tuple(found[0, -1]) == (0xE0, 0x3C, 0x28)
    assert found[0, 0].max() == pytest.approx(abs(least) * (0xD0 if least < 0 else 0xE0), abs=1.5)


@pytest.mark.parametrize("value", [0.0, -0.0, np.nan])
def test_a_signed_map_of_zeros_leaves_the_image_as_it_is_and_a_matrix_white(value):
    assert (signed(grain(), np.full((7, 7), value)) == np.asarray(grain())).all()
    png = matrix([Panel("", np.full((2, 2), value), signed=True)], "ab", "cd", Style(), LIMIT)
    assert (pixels(png)[lay_out("ab", "cd", 1).centre(0, 1, 1)[::-1]] == 255).all()


def test_one_panel_may_be_signed_and_the_next_not():
    values = np.random.default_rng(3).normal(size=(2, 3, 5))
    both = [Panel("one", values[0], signed=True), Panel("two", values[1])]
    picture = pixels(overlay(grain(150, 100), (0, 0, 150, 100), both, plain(), LIMIT))
    for index, panel in enumerate(both):
        left, top = drawing.tiles_of(150, 100, 2).corner(index)
        alone = pixels(overlay(grain(150, 100), (0, 0, 150, 100), [panel], plain(), LIMIT))
        assert (picture[top : top + 100, left : left + 150] == alone).all()


def test_cells_of_a_signed_matrix_are_white_at_zero_and_the_darker_the_further_from_it():
    values = np.array([[-1.0, -0.6, -0.2, 0.0, 0.2, 0.6, 1.0]]) * 3e-5
    layout = lay_out("q", "abcdefg", 1)
    picture = pixels(matrix([Panel("", values, signed=True)], "q", "abcdefg", Style("magma"), LIMIT))
    cells = np.array([picture[layout.centre(0, 0, key)[::-1]] for key in range(7)])
    assert [cells[0].tolist(), cells[3].tolist(), cells[6].tolist()] == [[5, 48, 97], [255] * 3, [103, 0, 31]]
    brightness = cells.sum(axis=1)
    assert (np.diff(brightness[:4]) > 0).all()
    assert (np.diff(brightness[3:]) < 0).all()
    assert (cells[:3, 0] < cells[:3, 2]).all(), "blue below zero"
    assert (cells[4:, 0] > cells[4:, 2]).all(), "red above"


@pytest.mark.parametrize("most", [2.25e-05, 0.5, 123456.0])
def test_the_colour_bar_of_a_signed_matrix_stands_between_both_of_its_numbers(most):
    shown = below([-most, most / 3], signed=True)
    assert (shown == below([most, 0.0], signed=True)).all()
    assert (shown != below([most * 2, 0.0], signed=True)).any()
    assert (shown[:, -lay_out("q", "kk", 1).text // 2 :] == 255).all(), "the number is whole"
    bar = bar_of(shown, SIGNED)
    assert (bar[0], bar[-1]) == (0, 254)
    assert bar == sorted(bar)


def outlined(image, outline, width=None, count=1):
    panels = [Panel("", np.zeros((2, 2)), outline=outline) for _ in range(count)]
    return pixels(overlay(image, (0, 0, *image.size), panels, OPAQUE, LIMIT, width))


@pytest.mark.parametrize("outline", [(10, 20, 50, 70), (10.4, 19.6, 50.2, 70.3), (0, 0, 100, 80), (99, 79, 100, 80)])
@pytest.mark.parametrize("ground", [0, 255])
def test_a_box_is_outlined_by_a_white_line_between_two_dark_ones_on_any_ground(outline, ground):
    image = Image.new("L", (100, 80), ground)
    picture = outlined(image, outline)
    left, top, right, bottom = (round(edge) for edge in outline)
    edges = np.zeros((80, 100), bool)
    edges[top:bottom, [left, right - 1]] = edges[[top, bottom - 1], left:right] = True
    assert (picture[edges] == 255).all()
    near = np.zeros((84, 104), bool)
    for down in range(5):
        for across in range(5):
            near[down : down + 80, across : across + 100] |= edges
    far = ~near[2:-2, 2:-2]
    assert (picture[far] == ground).all()
    if ground:
        assert (picture[~far & ~edges].min(-1) < 128).any()


@pytest.mark.parametrize(
    "outline", [(-20, -30, 140, 110), (40, 30, 40, 30), (60, 50, 20, 10), (-9, 10, -5, 20), (150, 10, 190, 20)]
)
def test_a_box_beyond_the_image_or_without_a_size_is_drawn_as_far_as_it_is_there(outline):
    picture = outlined(black(100, 80), outline)
    assert picture.shape == (80, 100, 3)
    if outline[2] < 0 or outline[0] > 100 or outline[0] < 0 < outline[2]:
        assert not picture.any()


def test_a_box_grows_with_the_picture_and_lies_over_the_heat_of_its_panel():
    small, large = (outlined(black(100, 80), (10, 20, 50, 70), width) for width in (None, 400))
    assert (large[80:280, [40, 199]] == 255).all()
    assert (small[20:70, [10, 49]] == 255).all()
    both = outlined(black(200, 80), (10, 20, 50, 70), count=2)
    assert (both == 255).all(-1).sum() > 2 * 2 * (40 + 50) - 20
    lines = [(outlined(black(width, 300), (50, 50, 200, 200)) == 255).all(-1)[100].sum() for width in (300, 1000)]
    assert lines == [2, 10]


def test_the_colours_of_signed_maps_have_zero_in_the_middle():
    assert SIGNED.shape == AGAINST_AND_FOR.shape == (255, 3)
    assert SIGNED[127].tolist() == [255, 255, 255]
    assert len(np.unique(AGAINST_AND_FOR[:127], axis=0)) == len(np.unique(AGAINST_AND_FOR[127:], axis=0)) == 1
    assert not SIGNED.flags.writeable
    assert not AGAINST_AND_FOR.flags.writeable


def grey(image, brightness):
    return np.asarray(image.convert("RGB")).astype(float) @ (0.30, 0.59, 0.11) * brightness


@pytest.mark.parametrize("box", [*BOXES, (70, 0, 90, 40), (20, 20, 20, 20)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_the_ground_is_grey_and_darker_where_the_model_does_not_look(box, mode):
    image = grain(mode=mode)
    picture = drawn(image, box, np.zeros((3, 5)), Style())
    seen = inside(box, 60, 40)[:, :, None]
    expected = np.where(seen, grey(image, 0.8)[:, :, None], grey(image, 0.4)[:, :, None])
    assert np.abs(picture - expected).max() < 1


def test_grey_takes_no_more_memory_than_the_photograph():
    large = black(2000, 2000)
    tracemalloc.start()
    overlay(large, (0, 0, 1500, 2000), [Panel("", np.eye(7))], Style(), LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 2000 * 2000 * 3


def test_one_hot_cell_colours_one_cell():
    values = np.random.default_rng(0).random((16, 16)) * 1e-5
    values[4, 9] = 0.99
    bare = drawn(grain(160, 160), (0, 0, 160, 160), np.zeros((16, 16)), Style())
    changed = np.abs(drawn(grain(160, 160), (0, 0, 160, 160), values, Style()) - bare).max(2) > 5
    assert changed.any()
    assert not changed[:, :80].any()
    assert changed.mean() < 0.03


def test_where_colours_end_earlier_titles_say_how_many_patches_are_above_and_up_to_what():
    values = np.full((16, 16), 0.01)
    values[0, :5] = 0.0847
    share, number = (drawing._titled(Panel("layer 0", values, shares=shares), Style()) for shares in (True, False))
    assert share == "layer 0, 5 patches above: up to 8.47 %"
    assert number == "layer 0, 5 patches above: up to 0.0847"
    values[0, 1:5] = 0
    assert drawing._titled(Panel("layer 0", values), Style()) == "layer 0, 1 patch above: up to 0.0847"
    assert drawing._titled(Panel("layer 0", values), plain()) == "layer 0"
