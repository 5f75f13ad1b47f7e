"""An attention answer as a picture: over the image, sound or graph that was sent, or as a matrix of tokens."""

from typing import Any

from PIL import Image

from contract.input_rules import FRAMES, NODES
from contract.manifest import OBJECTS, POOL, Kind
from service.explanations import curves, drawing, graph_drawing, matrix_drawing
from service.explanations.answer import MOST_ERROR, AttentionAnswer, AttentionMap, Values
from service.explanations.found_object import FoundObject
from service.explanations.selection import MEAN_ROW
from service.explanations.spectrogram import spectrogram
from service.inputs.model_input import Box, Graph, Pixels, Sound


def draw(answer: AttentionAnswer, sent: Pixels | None, max_pixels: int) -> Image.Image:
    """Draw the maps over the image as it was sent, upright, or as a matrix of tokens. Raises TooLarge.

    If the maps are evaluated, the curves are drawn instead.
    """
    width = answer.query.options.width
    if answer.evaluation:
        return curves.draw(answer.evaluation, max_pixels, width)
    options = answer.query.options
    style = drawing.Style(options.colormap, options.opacity, options.ground, options.scale)
    shown = answer.drawable().merged()
    kind = shown.maps[0].kind
    if answer.picture and sent is not None and kind.grid:
        coloured = answer.query.rules.numbers > 1
        panels = [
            drawing.Panel(
                _row_title(shown, one, head, position),
                _over_grid(one, slice(None) if coloured else head, row),
                _in_two_colours(answer, one),
                _box_of(shown, one.kind, position),
                bool(one.entry.get("normalized")),
                _caution(one),
            )
            for one in shown.maps
            for head in range(1 if coloured else one.values.shape[0])
            for row, position in enumerate((None,) if one.rows is None else one.rows)
        ]
        image = Image.fromarray(sent[:, :, 0] if sent.shape[2] == 1 else sent)
        return drawing.overlay(image, answer.picture.box, panels, style, max_pixels, width)
    if answer.sound and (kind.grid or kind.key == FRAMES):
        return _over_spectrogram(shown, answer.sound, style, max_pixels)
    if answer.graph:
        return _over_graph(shown, answer.graph, style, max_pixels)
    labels = [_row_labels(shown, one) for one in shown.maps]
    queries = labels[0] if all(own == labels[0] for own in labels) else ["all"]  # titles tell targets apart
    keys = _names(shown, kind.key)
    panels = [
        drawing.Panel(
            ", ".join(filter(None, (_caution(one), _title(answer, one, head)))),
            one.values[head],
            _in_two_colours(answer, one),
        )
        for one in shown.maps
        for head in range(one.values.shape[0])
    ]
    return matrix_drawing.matrix(panels, queries, keys, style, max_pixels, width)


def _over_spectrogram(answer: AttentionAnswer, sound: Sound, style: drawing.Style, max_pixels: int) -> Image.Image:
    """Draw each row over what was heard, from its beginning to its end, low frequencies at the bottom."""
    image, panels = spectrogram(sound), []
    for drawn in answer.maps:
        targets = drawn.entry.get("targets")
        for head in range(drawn.values.shape[0]):
            for row, position in enumerate((None,) if drawn.rows is None else drawn.rows):
                values = _over_grid(drawn, head, row)[::-1] if drawn.kind.grid else drawn.values[head, row][None]
                named = isinstance(targets, list) and str(targets[row]["text"])
                title = named or _row_title(answer, drawn, head, position)
                panels.append(drawing.Panel(title, values[:, : sound.frames], _in_two_colours(answer, drawn)))
    box = (0.0, 0.0, float(image.width), float(image.height))
    return drawing.overlay(image, box, panels, style, max_pixels, answer.query.options.width)


def _over_graph(answer: AttentionAnswer, graph: Graph, style: drawing.Style, max_pixels: int) -> Image.Image:
    """Draw each map over the nodes of a graph. What a virtual node is given, or gives, is not drawn."""
    nodes = [token for token in answer.axes[NODES] if token.span]
    before = len(answer.axes[NODES]) - len(nodes)
    panels = []
    for drawn in answer.maps:
        rows = [None if row is None or row < before else row - before for row in drawn.rows or (None,)]
        for head in range(drawn.values.shape[0]):
            title = ", ".join(filter(None, (_caution(drawn), _row_title(answer, drawn, head, None))))
            panel = drawing.Panel(title, drawn.values[head, :, before:], _in_two_colours(answer, drawn))
            panels.append(graph_drawing.GraphPanel(panel, rows))
    return graph_drawing.draw(graph, nodes, panels, style, max_pixels, answer.query.options.width)


def _in_two_colours(answer: AttentionAnswer, one: AttentionMap) -> bool:
    """Return whether a map is drawn by the signs of its values: if it has them, and no colormap is asked for."""
    rules = answer.query.rules
    signed = rules.signed or (rules.by_states and not one.kind.grid) or (rules.weights and not one.kind.normalized)
    return signed and "colormap" not in answer.query.options.model_fields_set


def _row_labels(answer: AttentionAnswer, one: AttentionMap) -> list[str]:
    """Return the labels of the rows of a matrix: tokens, whatever words they are in, or what is explained."""
    if isinstance(targets := one.entry.get("targets"), list):
        return [str(target["text"]) for target in targets]
    if one.rows is None:
        target = one.entry.get("target")
        return [str(target["label"]) if isinstance(target, dict) else "all"]
    names = [token.text for token in answer.asking] or _names(answer, one.kind.query)
    return [names[row] for row in one.rows]


def _names(answer: AttentionAnswer, axis: str) -> list[str]:
    """Return what the places of an axis are called: tokens by their texts, objects by their labels."""
    if axis == OBJECTS:
        return [one.label for one in answer.objects]
    if axis == POOL:
        return [POOL]
    return [token.text for token in answer.axes[axis]]


def _object_at(answer: AttentionAnswer, kind: Kind, position: int | None) -> FoundObject | None:
    """Return the object that a row stands for."""
    first = None if answer.of_other else kind.first_object
    if first is None or position is None or position < first:
        return None
    return answer.objects[position - first]


def _box_of(answer: AttentionAnswer, kind: Kind, position: int | None) -> Box | None:
    """Return the box of the object that a row stands for, or of the patch that others are like to."""
    if found := _object_at(answer, kind, position):
        return found.box
    patches = range(kind.length)[kind.patches]
    own = answer.query.by_states and not answer.of_other
    if not own or not answer.picture or position is None or position not in patches:
        return None
    (rows, columns), (left, top, right, bottom) = kind.grid or (1, 1), answer.picture.box
    down, across = divmod(patches.index(position), columns)
    width, height = (right - left) / columns, (bottom - top) / rows
    return left + across * width, top + down * height, left + (across + 1) * width, top + (down + 1) * height


def _row_title(answer: AttentionAnswer, one: AttentionMap, head: int, position: int | None) -> str:
    """Return the title of one row over an image: its word, and what distinguishes it from the other rows."""
    title = _title(answer, one, head)
    if found := _object_at(answer, one.kind, position):
        return f"{found.label} {found.probability:.0%}, {title}"
    if one.kind.query not in answer.axes or position is None:
        return title + (f", row {position}" if position and position != MEAN_ROW else "")
    word = answer.axes[one.kind.query][position].text
    return word if len(answer.maps) == len(one.values) == 1 else f"{word.strip()}, {title}"


def _title(answer: AttentionAnswer, one: AttentionMap, head: int) -> str:
    heads, layer = one.entry["heads"], one.entry["layer"]
    if answer.query.rules.by_picture:
        return answer.query.method
    if answer.query.by_states:
        return f"{answer.query.method}, layer {layer}"
    if not answer.query.by_gradient:
        which = f"head {heads[head]}" if isinstance(heads, list) else f"{heads} of heads"
        return f"{one.kind.name}: " + (which if layer is None else f"layer {layer}, {which}")
    title, behind = answer.query.method, f", layer {layer}" if layer else ""
    target, against = one.entry.get("target"), one.entry.get("against")
    if not isinstance(target, dict):
        return f"{title}{behind}, {one.kind.name}"
    rather = f" against {against['label']}" if isinstance(against, dict) else ""
    return f"{title} of {target['label']}{rather}{behind}"


def _over_grid(one: AttentionMap, head: int | slice, row: int) -> Values:
    """Return a row over the grid of patches, (rows, columns), or of all heads together as a colour, (..., head)."""
    values = one.values[head, row, one.kind.patches]
    rows, columns = one.kind.grid or (1, values.shape[-1])
    return values.T.reshape(rows, columns, *values.shape[:-1])


def _caution(one: AttentionMap) -> str:
    """Return what must be said of the values of a path that miss much of what they explain; else nothing."""
    entries: Any = [one.entry, *(one.entry.get("targets") or ())]  # type: ignore[misc] # a list, where it is
    missed = [entry["completeness"]["relative_error"] for entry in entries if "completeness" in entry]
    return f"misses {max(missed):.0%}" if missed and max(missed) > MOST_ERROR else ""
