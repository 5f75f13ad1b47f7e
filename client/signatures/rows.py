"""The methods of models and answers: what each takes, answers and does, and whose options are in its signature."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Row:
    """A method: its name, parameters, answer, docstring and body, and whose options it takes.

    In a body `{options}` is what was given of them, and `{wait}` is the twin's `await`. In an answer `Later[...]` is
    what the twin's caller awaits. `example` is code.
    """

    name: str
    given: str
    answer: str
    takes: str
    words: str
    body: str
    example: str = ""
    decorator: str = ""


def several(row: Row, words: str, given: str = "") -> Row:
    """Return the row of a method for several inputs, which takes the same options."""
    kind = re.sub("^.*: ", "", given or row.given)
    body = row.body.replace("_one(", "_all(")
    words = f"{words} Options are those of `{row.name}`."
    given, answer = f"given: Iterable[{kind}]", f"list[{row.answer}]"
    return replace(row, name=f"{row.name}_batch", given=given, answer=answer, words=words, body=body, example="")


def asking(name: str, given: str, answer: str, takes: str, words: str, task: str, example: str) -> Row:
    """Return the row of a method that asks for the answer to one input."""
    subject = "(question, context)" if "," in given else "given"
    return Row(name, given, answer, takes, words, f"return {{wait}}self._one({task}, {subject}, {{options}})", example)


CLASSIFY = asking(
    "classify", "given: Input", "Classification", "ClassifyOptions",
    "Return the likeliest classes of a picture, a text or a graph.", "CLASSIFY",
    'model.classify("seven.png", top_k=3).labels[0].label',
)  # fmt: skip
DETECT = asking(
    "detect", "given: Picture", "Detection", "DetectOptions",
    "Return the objects of a picture: which they are, and where.", "DETECT",
    'model.detect("street.jpg", threshold=0.5).objects[0].box',
)  # fmt: skip
EMBED = asking(
    "embed", "given: Input", "Embedding", "EmbedOptions",
    "Return a text, a picture, a sound or a graph as a vector.", "EMBED",
    'model.embed("A cat sat.", dimensions=64).vector',
)  # fmt: skip
EMBED_SPARSE = asking(
    "embed_sparse", "given: Text", "SparseEmbedding", "SparseOptions",
    "Return the words that a text is about, with their weights.", "EMBED_SPARSE",
    'model.embed_sparse("A cat sat.", top_k=8).words[0].text',
)  # fmt: skip
FILL_MASK = asking(
    "fill_mask", "given: Text", "Filled", "FillMaskOptions",
    "Return candidates for every mask of a text.", "FILL_MASK",
    'model.fill_mask("A [MASK] sat.").candidates[0][0].text',
)  # fmt: skip
TAG = asking(
    "tag", "given: Text", "Tagged", "TagOptions", "Return the entities of a text.", "TAG",
    'model.tag("We met on 4 July.", aggregate="first").entities[0].label',
)  # fmt: skip
ANSWER = asking(
    "answer", "question: str, context: str", "Answered", "AnswerOptions",
    "Return what answers a question in a context.", "ANSWER",
    'model.answer("Who sat?", "A cat sat.", top_k=2).text',
)  # fmt: skip
GENERATE = asking(
    "generate", "given: Input", "Generation", "GenerateOptions",
    "Return the text that the model writes for a text, the messages of a chat or a picture.", "GENERATE",
    'model.generate("3/23/21", num_beams=4).text',
)  # fmt: skip
ATTENTION = Row(
    "attention", "given: Input", "Look", "LookedAt",
    "Return what the model looks at, without its prediction: `.attention` of the answer.",
    "return {wait}self._one(ATTENTION, given, plans.asked_attention(self.description, {options}))",
    'model.attention("seven.png", method="raw", layers="all").attention.maps',
)  # fmt: skip
STREAM = Row(
    "stream", "given: Input", "Stream[StreamedToken, Generation]", "GenerateOptions",
    'Return the tokens of a text as the model writes them. With `attention={"kind": "cross", "steps": True}` each '
    "holds what the model read while it wrote it.",
    "return self._stream(GENERATE, given, {options})",
    'for token in model.stream("3/23/21"): print(token.text)',
)  # fmt: skip
HEARD = "given: Sound, rate: int | None = None, *, stream: "
TRANSCRIBE = Row(
    "transcribe", f"{HEARD}bool = False", "Stream[Segment, Transcription] | Later[Transcription]", "TranscribeOptions",
    "Return what was said in a sound; with `stream`, its segments as they are heard. `rate` is the samples a second of "
    "an array.",
    "sound = with_rate(given, rate)\n"
    "if stream:\n"
    "    return self._stream(TRANSCRIBE, sound, {options})\n"
    "return self._one(TRANSCRIBE, sound, {options})",
    'model.transcribe("talk.wav", timestamps="word").srt()',
)  # fmt: skip
STREAMED = replace(
    TRANSCRIBE, given=f"{HEARD}Literal[True]", answer="Stream[Segment, Transcription]", decorator="@overload"
)
WHOLE = replace(
    TRANSCRIBE, given=f"{HEARD}Literal[False] = False", answer="Later[Transcription]", decorator="@overload"
)
TRANSCRIBE_BATCH = Row(
    "transcribe_batch", "given: Iterable[Sound], rate: int | None = None", "list[Transcription]", "TranscribeOptions",
    "Return what was said in each of several sounds. Options are those of `transcribe`.",
    "return {wait}self._all(TRANSCRIBE, with_rates(given, rate), {options})",
)  # fmt: skip
RERANK = Row(
    "rerank", "query: str, texts: Iterable[str]", "list[Ranked]", "RerankOptions",
    "Return the texts that answer a query, best first. A query is never cut off.",
    "return {wait}self._ask(comparing.ranking, query, texts, {options})",
    'model.rerank("Who sat?", ["A cat sat.", "It rains."], top_k=1)[0].text',
)  # fmt: skip
SIMILARITY = Row(
    "similarity", "source: Input | Sequence[Input], inputs: Iterable[Input]", "list[Similarity]", "CompareOptions",
    "Return how alike each text, or picture, is to a source, or to each of several.",
    "return {wait}self._ask(comparing.similarity, source, inputs, {options})",
    'model.similarity("A cat sat.", ["A cat lay down."])[0].similarity',
)  # fmt: skip
OF_RESULT = "result: Result, method: Method | None = None"
LOOK = Row(
    "look", OF_RESULT, "Attention", "LookOptions",
    "Return what the model looked at for an answer; the input is not sent again while the service keeps it.",
    "return {wait}self._run(plans.look(self.description, result, method, {options}))",
    'model.look(answer, "libra", target="7").maps[0].values',
)  # fmt: skip
PNG = Row(
    "png", OF_RESULT, "bytes", "PictureOptions",
    "Return what the model looked at as the service draws it, as the bytes of a PNG file.",
    "return {wait}self._run(plans.png(self.description, result, method, {options}))",
    'Path("seen.png").write_bytes(model.png(answer, "rollout", width=600))',
)  # fmt: skip
IMAGE = replace(
    PNG, name="image", answer="Image.Image", words="Return what the model looked at as the service draws it.",
    body="return opened({wait}self._run(plans.png(self.description, result, method, {options})))",
    example='model.image(answer, "rollout", width=600).save("seen.png")',
)  # fmt: skip
OF_MODEL = (
    CLASSIFY, several(CLASSIFY, "Return the likeliest classes of each of several pictures, texts or graphs."),
    DETECT, several(DETECT, "Return the objects of each of several pictures."),
    EMBED, several(EMBED, "Return each of several texts, pictures, sounds or graphs as a vector."),
    EMBED_SPARSE, several(EMBED_SPARSE, "Return the words that each of several texts is about."),
    FILL_MASK, several(FILL_MASK, "Return candidates for every mask of each of several texts."),
    TAG, several(TAG, "Return the entities of each of several texts."),
    ANSWER,
    replace(
        several(ANSWER, "Return what answers each of several questions, each with its context.", "tuple[str, str]"),
        body="return {wait}self._all(ANSWER, given, {options})",
    ),
    GENERATE, several(GENERATE, "Return the text that the model writes for each of several texts or pictures."),
    STREAM, STREAMED, WHOLE, TRANSCRIBE, TRANSCRIBE_BATCH, RERANK, SIMILARITY,
    ATTENTION, several(ATTENTION, "Return what the model looks at in each of several inputs."),
    LOOK, IMAGE, PNG,
)  # fmt: skip

USUAL = "method: Method | None = None"
PLACE = "map: int | None = None, head: int | None = None, row: int | None = None, object: int | None = None"
SHAPE = f"{PLACE}, smooth: bool = True, upright: bool = True, outside: float = np.nan, scale: bool = False"
CHOSEN = "map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside, scale=scale"
HEAT = Row(
    "heat", f"{USUAL}, *, {SHAPE}", "Array", "LookOptions",
    "Return what the model looked at as heat over the picture: (height, width), as large as it was sent. "
    "`Attention.heat` says what each word means that is not among the options. Of a detector it is the surest "
    "object's, if none is chosen by `object` (its number), `row`, `kind`, `queries` or `target`.",
    "chosen = self._of_heat(method, object, row, {options})\n"
    f"return self._look(method, chosen).heat(\n    {CHOSEN}\n)",
    'answer.heat("relevance", target="7").argmax()',
)  # fmt: skip
OF_ANSWER = (
    Row(
        "look", USUAL, "Attention", "LookOptions",
        "Return what the model looked at for this answer. Without `method` it is the one that measured best on this "
        "model where that is known. The input is not sent again while the service keeps it. Raises `Refused` for what "
        "the model cannot show.",
        "return self._look(method, {options})",
        'answer.look("libra", target="7").maps[0].values',
    ),
    Row(
        "maps", 'method: Method = "raw"', "Sequence[Map]", "LookOptions",
        "Return the maps of a method, whose values are (heads, queries, keys); of `raw` those of the last layer.",
        "return self._look(method, {options}).maps",
        'answer.maps("raw", layers="all", heads="all", queries="all")',
    ),
    HEAT,
    Row(
        "overlay", f"{USUAL}, *, {PLACE}, smooth: bool = True, opacity: float = OPACITY, ground: Ground = \"grey\"",
        "Image.Image", "LookOptions",
        "Return the picture that was sent, upright, under one map's heat. `Attention.overlay` says what each word "
        "means that is not among the options, `heat` which object of a detector is shown. `image` is what the service "
        "draws, with a panel for each of several rows.",
        "look = self._look(method, self._of_heat(method, object, row, {options}))\n"
        "return look.overlay(\n"
        "    self._picture(), map=map, head=head, row=row, smooth=smooth, opacity=opacity, ground=ground\n)",
        'answer.overlay("rollout").save("seen.png")',
    ),
    Row(
        "table", "*methods: Method, map: int | None = None, head: int | None = None, row: int | None = None", "Table",
        "LookOptions",
        "Return a row for each token or patch, with its share by each method; print it, or take `.to_pandas()`. "
        "Without a method, it is the model's usual one. `map`, `head` and `row` choose: without them the first map of "
        "the last kind, the mean of heads, and all rows. Raises BadInput if methods have other rows or columns.",
        "chosen = {options}\n"
        "looks = [self._look(one, chosen) for one in methods or (None,)]\n"
        "return table_of({{look.method: look for look in looks}}, map=map, head=head, row=row)",
        'answer.table("raw", "libra")',
    ),
    Row(
        "figure", USUAL, "Figure", "LookOptions",
        "Return what the model looked at as a figure for a paper; without a method as `image` draws it. Pictures are "
        "under heat, tokens on their colours or in matrices; graphs and sounds are as the service draws them. In a "
        "notebook it shows itself; `save` writes it, and `plot` draws it on axes of matplotlib.",
        "return self._figure(method, {options})",
        'answer.figure("libra").save("seen.svg")',
    ),
    Row(
        "plot", f"{USUAL}, *, ax: Any = None", "Any", "LookOptions",
        "Draw that figure on axes of matplotlib, or on a figure of its own, and return the axes. Raises NotInstalled "
        "without matplotlib.",
        "return self._figure(method, {options}).plot(ax)",
        'answer.plot("libra", ax=axes[0])',
    ),
    Row(
        "save", f"path: str | Path, {USUAL}", "None", "PictureOptions",
        "Write what the model looked at, by a method or its usual one, in the form that the path ends in. `.html` is "
        "what a notebook shows, in one file that needs no network; `.png` what the service draws; `.svg` and `.pdf` "
        "(which needs matplotlib) the figure, without options of drawing. Raises BadInput for another ending, and "
        "where no file can be written.",
        "self._save(path, method, {options})",
        'answer.save("seen.svg", "libra")',
    ),
    Row(
        "image", USUAL, "Image.Image", "PictureOptions",
        "Return what the model looked at as the service draws it: over the picture, or as a matrix of tokens.",
        "return self._image(method, {options})",
        'answer.image("rollout", width=600).save("seen.png")',
    ),
    Row(
        "curves", USUAL, "Evaluation", "LookOptions",
        "Return how the score falls and rises as what the map calls important is taken away, and put back.",
        'asked = {{"evaluate": ["deletion", "insertion"], **{options}}}\n'
        "found = self._look(method, asked).evaluation\n"
        "if found is None:\n"
        '    raise BadInput("curves: this service answered none")\n'
        "return found",
        'answer.curves("libra").curves[0].area',
    ),
)  # fmt: skip
