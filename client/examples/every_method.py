"""Every method of the client, typed: `python client/examples/every_method.py`, with a service of digits and dates."""

import asyncio
import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import regard
from PIL import Image

PICTURE = Path(__file__).parents[2] / "tests" / "data" / "digits" / "seven.png"
DATE = "3/23/21"


def pictures(digits: regard.Model) -> None:
    """Classify a picture, and see what the model looked at."""
    answer: regard.Classification = digits.classify(PICTURE, top_k=3, attention="rollout")
    best: regard.Label = answer.labels[0]
    print(best.label, best.index, f"{best.probability:.3f}", answer.id)

    attention: regard.Attention | None = answer.attention
    print(attention.method if attention else "no attention", digits.description.usual)

    heat: regard.Array = answer.heat("relevance", target=1, smooth=False, outside=0.0)
    print("heat", heat.shape, f"{np.nanmax(heat):.3f}")
    for a_map in answer.maps("raw", layers="all", heads="all"):
        print(a_map.name, a_map.layer, a_map.values.shape)
    drawn: Image.Image = answer.image("rollout", width=256, colormap="magma", opacity=0.5)
    print("picture", drawn.size, len(digits.png(answer, "raw")), digits.image(answer).size)
    evaluation: regard.Evaluation = answer.curves("relevance")
    print(evaluation.measure, [(one.method, one.name, round(one.area, 2)) for one in evaluation.curves])
    look: regard.Attention = answer.look("raw", diagnostics=True)
    print("entropy", look.diagnostics[0].heads["entropy"].shape, look.grid, look.heat(head=0).shape)
    parts: regard.Attention = answer.look("parts")
    print("colours", parts.colours().shape, answer.look("similar", queries=[25]).heat(scale=True).shape)
    again: regard.Attention = digits.look(answer, "norm")
    print(again.method, len(again.json["maps"]))

    table: regard.Table = answer.table("raw", "libra")
    print(repr(table), answer.look("libra"))
    overlaid: Image.Image = regard.side_by_side([answer.overlay("raw"), look.overlay(answer.overlay("raw"))])
    figure: regard.Figure = answer.figure("libra")
    print(overlaid.size, figure, look.figure(), len(look.table()))

    with tempfile.TemporaryDirectory() as folder:
        answer.save(Path(folder) / "seven.html")
        answer.save(Path(folder) / "seven.svg", "libra", target=1)
        regard.save_many(Path(folder) / "many.npz", [answer])
    heads: regard.Summary = regard.summarise(digits, [PICTURE])["encoder"]
    difference: regard.Difference = regard.difference(digits, digits, [PICTURE])
    print(heads, heads.mean["entropy"].shape, difference)
    if importlib.util.find_spec("matplotlib"):
        answer.plot("libra")

    with Image.open(PICTURE) as opened:
        turned = opened.convert("RGB").rotate(90, fillcolor="white")
    for found in digits.classify_batch([PICTURE, PICTURE.read_bytes(), turned, np.asarray(turned)]):
        print(found.labels[0].label, end=" ")
    print(digits(PICTURE).asked.is_repeatable)
    alone: regard.Look = digits.attention(PICTURE, method="raw", layers=[0], heads="mean")
    print(
        len(alone.attention.maps) if alone.attention else 0,
        len(digits.attention_batch([PICTURE, PICTURE], method="raw")),
    )


def many(digits: regard.Model[regard.Classification]) -> None:
    """Ask for many pictures at once, one of which is none, each within ten seconds."""
    for given, seen in digits.with_options(timeout=10).map([PICTURE, b"none"], errors="yield", concurrency=2):
        if isinstance(seen, regard.RegardError):
            print(type(given).__name__, seen)
        else:
            print(seen.labels[0].label)


def texts(dates: regard.Model) -> None:
    """Write a text at once, in a batch, and token by token."""
    answer: regard.Generation = dates.generate(DATE, num_beams=2, alternatives=1)
    token: regard.GeneratedToken = answer.tokens[0]
    print(answer.text, answer.finish_reason, answer.score, token.text, f"{token.log_probability:.3f}")
    print([one.text for one in dates.generate_batch([DATE, "march 3 1999"], temperature=0.5, seed=1)])
    with dates.stream(DATE, attention={"method": "raw", "kind": "cross", "steps": True}) as stream:
        for generated in stream:
            step: regard.StreamedToken = generated
            print(step.text, step.maps[0].values.shape)
    print(stream.result.text)
    print(next(dates.stream(DATE)).text)
    stream.close()
    bertviz = answer.bertviz() if "torch" in sys.modules else answer.look("raw").tokens
    print(sorted(bertviz))


def objects(detector: regard.Model) -> None:
    """Find the objects of a picture, and see by what each was found."""
    answer: regard.Detection = detector.detect(PICTURE, threshold=0.1, top_k=3)
    for detected in answer.objects:
        found: regard.Detected = detected
        box: regard.Box = found.box
        print(found.label, f"{found.probability:.2f}", f"{box.left:.0f}", f"{box.bottom:.0f}")
        print("heat", answer.heat("raw", object=found.object).shape, answer.heat("libra", object=found.object).shape)
    look: regard.Attention = answer.look("raw", kind="cross", threshold=0.0)
    print(look.maps[0].objects, look.objects[0].label, answer.image().size)
    print(len(detector.detect_batch([PICTURE, PICTURE])), detector.description.detection)


def others(model: regard.Model, text: str) -> None:
    """Call what only models of other tasks have."""
    embedding: regard.Embedding = model.embed(text, truncate=True)
    print(embedding.vector.shape, len(model.embed_batch([text, text])))
    likeness: list[regard.Similarity] = model.similarity(text, [text], truncate=True)
    against: regard.AskedAttention = {"method": "libra", "against": {"text": text}}
    ranked: list[regard.Ranked] = model.rerank(text, [text], top_k=1, raw_scores=True, attention=against)
    print(likeness[0].similarity, ranked[0].index, ranked[0].score, ranked[0].text)
    other: regard.RankedAgainst | None = ranked[0].against
    print(other and (other.text, other.score, other.attention))
    tagged: regard.Tagged = model.tag(text, aggregate="max", ignore=["O"])
    print([one.text for one in tagged.entities], len(model.tag_batch([text])))
    answered: regard.Answered = model.answer(text, text, top_k=2, most_tokens=3, impossible=True)
    print(answered.text, answered.answers[0].score, len(model.answer_batch([(text, text)])))
    sparse: regard.SparseEmbedding = model.embed_sparse(text, top_k=2, truncate=True)
    print([(one.text, one.weight) for one in sparse.words], len(model.embed_sparse_batch([text])))
    filled: regard.Filled = model.fill_mask(text, top_k=2)
    print(filled.candidates[0][0].text, len(model.fill_mask_batch([text])))


def sounds(model: regard.Model) -> None:
    """Write what is said in a sound: at once, as subtitles, in a batch, and segment by segment."""
    second = np.zeros(16_000, np.float32)
    answer: regard.Transcription = model.transcribe(second, 16_000, timestamps="word", language="en")
    words: list[regard.SpokenWord] = list(answer.words)
    print(answer.text, answer.language, answer.duration, len(words), answer.srt(), answer.vtt(width=1))
    print(len(model.transcribe_batch([second, second], 16_000)), model.description.step)
    with model.transcribe((second, 16_000), stream=True) as stream:
        for heard in stream:
            segment: regard.Segment = heard
            print(segment.start, segment.end, segment.text)
    print(stream.result.text)


def graphs(model: regard.Model) -> None:
    """Ask about a graph, and see where its nodes are drawn."""
    linked = {"nodes": [0, 0], "edges": [[0, 1, 0]]}
    answer: regard.Classification = model.classify(linked, attention="raw")
    if answer.attention and (sent := answer.attention.graph):
        graph: regard.SentGraph = sent
        print(graph.directed, graph.edges.shape, graph.places.shape, len(model.classify_batch([linked])))


async def beside_one_another(url: str) -> None:
    """The same with asyncio."""
    async with regard.AsyncService(url) as service:
        names = [one.name for one in await service.models()]
        digits, dates = await service.model("digits"), await service.model("dates")
        print(names, service.url, digits.name, digits.description.task)
        answers = await asyncio.gather(digits.classify(PICTURE), dates.generate(DATE), digits(PICTURE))
        print([answer.id != "" for answer in answers])
        print((await digits.look(answers[0], "rollout")).heat().shape, (await digits.image(answers[0])).size)
        print(len(await digits.classify_batch([PICTURE])), len(await dates.generate_batch([DATE])))
        print((await digits.attention(PICTURE)).id != "", len(await digits.attention_batch([PICTURE])))
        stream = dates.stream(DATE)
        print((await anext(stream)).text)
        await stream.close()
        async with dates.stream(DATE) as stream:
            print([token.text async for token in stream], stream.result.text)
        wrong = (dates.embed(DATE), dates.embed_batch([DATE]), dates.fill_mask(DATE), dates.fill_mask_batch([DATE]))
        compared = (
            dates.embed_sparse(DATE),
            dates.embed_sparse_batch([DATE]),
            dates.tag(DATE),
            dates.tag_batch([DATE]),
            dates.answer(DATE, DATE),
            dates.answer_batch([(DATE, DATE)]),
            dates.rerank(DATE, [DATE]),
            dates.similarity(DATE, [DATE]),
        )
        for call in (*wrong, *compared, digits.detect(PICTURE), digits.detect_batch([PICTURE])):
            try:
                await call
            except regard.NotFound as error:
                print(error.problem.title)


def errors(service: regard.Service) -> None:
    """Each error says what to do next; a refusal holds the problem document."""
    try:
        service["digts"]
    except regard.NotFound as error:
        print(error.status, error.problem.detail, error.problem.request_id is not None)
    try:
        service.model("digits").classify(PICTURE, top_k=-1)
    except regard.InputRefused as error:
        print(error.problem.errors)
    try:
        others(service["digits"], DATE)
    except regard.RegardError as error:
        print(type(error).__name__)
    try:
        objects(service["digits"])
    except regard.NotFound as error:
        print(error.problem.detail)


def main() -> None:
    """Ask the service of REGARD_URL, or at http://127.0.0.1:8000."""
    with regard.connect(timeout=30, patience=10) as service:
        print([one.name for one in service.models()], service.url, service["digits"].name)
        pictures(service["digits"])
        many(service.model("digits", regard.Classification))
        texts(service["dates"])
        for model in service.models():
            if "detect" in model.endpoints:
                objects(service[model.name])
            if "transcribe" in model.endpoints:
                sounds(service[model.name])
            if model.sort == "graph":
                graphs(service[model.name])
        errors(service)
        asyncio.run(beside_one_another(service.url))
    service.close()


if __name__ == "__main__":
    main()
