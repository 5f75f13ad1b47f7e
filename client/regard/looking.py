"""What an answer shows of what was looked at: maps, heat, pictures, curves."""

# Written by `python -m client.signatures`: change its rows, or the options of a task, and run it.
# fmt: off
# ruff: noqa: A002, ANN401

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from regard.attention import Attention
from regard.errors import BadInput
from regard.figures import Figure
from regard.maps import Array, Evaluation, Json, KindName, Map
from regard.options import Indices, LookOptions, Method, PictureOptions
from regard.overlays import OPACITY, Ground
from regard.plain import kept
from regard.table import Table, table_of


class Looking:
    """What an answer shows of what was looked at. Whoever has these methods has those that are missing here."""

    def _look(self, method: Method | None, options: Json) -> Attention:
        raise NotImplementedError

    def _image(self, method: Method | None, options: Json) -> Image.Image:
        raise NotImplementedError

    def _picture(self) -> Image.Image:
        raise NotImplementedError

    def _figure(self, method: Method | None, options: Json) -> Figure:
        raise NotImplementedError

    def _save(self, path: str | Path, method: Method | None, options: Json) -> None:
        raise NotImplementedError

    def _of_heat(self, method: Method | None, object: int | None, row: int | None, options: Json) -> Json:
        """Return the options by which the map that becomes heat is asked for."""
        raise NotImplementedError

    def look(
        self, method: Method | None = None, *, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Attention:
        """Return what the model looked at for this answer. Without `method` it is the one that measured best on this
        model where that is known. The input is not sent again while the service keeps it. Raises `Refused` for what
        the model cannot show.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.look("libra", target="7").maps[0].values`
        """
        return self._look(method, kept(LookOptions, locals()))

    def maps(
        self, method: Method = "raw", *, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Sequence[Map]:
        """Return the maps of a method, whose values are (heads, queries, keys); of `raw` those of the last layer.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.maps("raw", layers="all", heads="all", queries="all")`
        """
        return self._look(method, kept(LookOptions, locals())).maps

    def heat(
        self, method: Method | None = None, *, map: int | None = None, head: int | None = None, row: int | None = None,
        object: int | None = None, smooth: bool = True, upright: bool = True, outside: float = np.nan,
        scale: bool = False, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Array:
        """Return what the model looked at as heat over the picture: (height, width), as large as it was sent.
        `Attention.heat` says what each word means that is not among the options. Of a detector it is the surest
        object's, if none is chosen by `object` (its number), `row`, `kind`, `queries` or `target`.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.heat("relevance", target="7").argmax()`
        """
        chosen = self._of_heat(method, object, row, kept(LookOptions, locals()))
        return self._look(method, chosen).heat(
            map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside, scale=scale
        )

    def overlay(
        self, method: Method | None = None, *, map: int | None = None, head: int | None = None, row: int | None = None,
        object: int | None = None, smooth: bool = True, opacity: float = OPACITY, ground: Ground = "grey",
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Image.Image:
        """Return the picture that was sent, upright, under one map's heat. `Attention.overlay` says what each word
        means that is not among the options, `heat` which object of a detector is shown. `image` is what the service
        draws, with a panel for each of several rows.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.overlay("rollout").save("seen.png")`
        """
        look = self._look(method, self._of_heat(method, object, row, kept(LookOptions, locals())))
        return look.overlay(
            self._picture(), map=map, head=head, row=row, smooth=smooth, opacity=opacity, ground=ground
        )

    def table(
        self, *methods: Method, map: int | None = None, head: int | None = None, row: int | None = None,
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Table:
        """Return a row for each token or patch, with its share by each method; print it, or take `.to_pandas()`.
        Without a method, it is the model's usual one. `map`, `head` and `row` choose: without them the first map of
        the last kind, the mean of heads, and all rows. Raises BadInput if methods have other rows or columns.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.table("raw", "libra")`
        """
        chosen = kept(LookOptions, locals())
        looks = [self._look(one, chosen) for one in methods or (None,)]
        return table_of({look.method: look for look in looks}, map=map, head=head, row=row)

    def figure(
        self, method: Method | None = None, *, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Figure:
        """Return what the model looked at as a figure for a paper; without a method as `image` draws it. Pictures
        are under heat, tokens on their colours or in matrices; graphs and sounds are as the service draws them. In a
        notebook it shows itself; `save` writes it, and `plot` draws it on axes of matplotlib.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.figure("libra").save("seen.svg")`
        """
        return self._figure(method, kept(LookOptions, locals()))

    def plot(
        self, method: Method | None = None, *, ax: Any = None, truncate: bool | None = None,
        overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Any:
        """Draw that figure on axes of matplotlib, or on a figure of its own, and return the axes. Raises
        NotInstalled without matplotlib.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.plot("libra", ax=axes[0])`
        """
        return self._figure(method, kept(LookOptions, locals())).plot(ax)

    def save(
        self, path: str | Path, method: Method | None = None, *, width: int | None = None,
        colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] | None = None, opacity: float | None = None,
        ground: Literal["grey", "photo"] | None = None, scale: Literal["clipped", "full"] | None = None,
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> None:
        """Write what the model looked at, by a method or its usual one, in the form that the path ends in. `.html`
        is what a notebook shows, in one file that needs no network; `.png` what the service draws; `.svg` and `.pdf`
        (which needs matplotlib) the figure, without options of drawing. Raises BadInput for another ending, and
        where no file can be written.

        - `width`: Pixels, 64 to 4096 (of an image its own, of texts what they need).
        - `colormap`: Colours of the heat ("viridis").
        - `opacity`: Of the heat where it is hottest, 0 to 1 (0.8).
        - `ground`: Under the heat: the picture in grey, or as it was sent ("grey").
        - `scale`: Colours end at the 98th percentile, or at the largest value ("clipped").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.save("seen.svg", "libra")`
        """
        self._save(path, method, kept(PictureOptions, locals()))

    def image(
        self, method: Method | None = None, *, width: int | None = None,
        colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] | None = None, opacity: float | None = None,
        ground: Literal["grey", "photo"] | None = None, scale: Literal["clipped", "full"] | None = None,
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Image.Image:
        """Return what the model looked at as the service draws it: over the picture, or as a matrix of tokens.

        - `width`: Pixels, 64 to 4096 (of an image its own, of texts what they need).
        - `colormap`: Colours of the heat ("viridis").
        - `opacity`: Of the heat where it is hottest, 0 to 1 (0.8).
        - `ground`: Under the heat: the picture in grey, or as it was sent ("grey").
        - `scale`: Colours end at the 98th percentile, or at the largest value ("clipped").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.image("rollout", width=600).save("seen.png")`
        """
        return self._image(method, kept(PictureOptions, locals()))

    def curves(
        self, method: Method | None = None, *, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Evaluation:
        """Return how the score falls and rises as what the map calls important is taken away, and put back.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `answer.curves("libra").curves[0].area`
        """
        asked = {"evaluate": ["deletion", "insertion"], **kept(LookOptions, locals())}
        found = self._look(method, asked).evaluation
        if found is None:
            raise BadInput("curves: this service answered none")
        return found
