"""What people do with our own client, as they would write it: also beside other packages, and of lowest versions."""

import asyncio
import tempfile
from pathlib import Path

import numpy as np
import regard
from PIL import Image

DATE = "23 mar 2021"


def folder_with_overlays(service):
    """Classify a folder of pictures, and lay over each what was looked at."""
    model, folder = regard.connect(service.url)[service.images], Path(tempfile.mkdtemp())
    for turn in range(3):
        Image.open(service.picture).rotate(90 * turn).save(folder / f"{turn}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    wrong = []
    for path, seen in model.map(sorted(folder.glob("*.png")), concurrency=2, errors="yield"):
        if isinstance(seen, regard.RegardError):
            wrong.append(str(seen))
        else:
            seen.image("rollout", width=300).save(folder / f"{path.stem}-{seen.labels[0].label}.jpg")
    assert (folder / "0-7.jpg").stat().st_size
    assert len(list(folder.glob("*.jpg"))) == 3
    assert len(wrong) == 1
    assert "broken.png: picture: must be an image" in wrong[0]


def alignment(service):
    """Say which characters of a text each character of its date was read from."""
    written = regard.connect(service.url)[service.seq2seq].generate(DATE)
    look = written.look("raw", kind="cross")
    rows, source = look.maps[0].values[0], look.tokens["source"]
    read = [(token.text, source[int(row.argmax())].text) for token, row in zip(written.tokens, rows, strict=False)]
    assert "".join(text for text, _ in read) == written.text == "2021-03-23"
    assert rows.shape == (len(written.tokens) + 1, len(source)), "the last row is that of the end"


def likeness(service):
    """Say which word makes two sentences alike, by another answer, and by its text."""
    model = regard.connect(service.url)[service.embeddings]
    one, other = model.embed_batch(["The hammer lay on the bench.", "She bought a hammer."])
    look = one.look("libra", against=other)
    ((row,),) = (a_map.values[0] for a_map in look.maps)
    assert look.tokens["source"][int(row.argmax())].text == "hammer"
    again = one.look("libra", against="She bought a hammer.")
    np.testing.assert_allclose(again.maps[0].values, look.maps[0].values, atol=1e-4)


def every_form_of_another_picture(service):
    """Explain a picture against another one: an answer, a path, bytes, Pillow's, an array, an open file."""
    pictures = regard.connect(service.url)[service.images]
    answer = pictures.classify(service.picture)
    for given in (answer, service.picture, Path(service.picture), Path(service.picture).read_bytes()):
        assert answer.look("similar", queries=[24], against=given).against is not None
    with Image.open(service.picture) as opened, Path(service.picture).open("rb") as file:
        for given in (opened, np.asarray(opened), file):
            assert answer.look("similar", queries=[24], against=given).against is not None


def stream(service):
    """Read a text as it is written, and leave another one early."""
    model = regard.connect(service.url)[service.seq2seq]
    with model.stream(DATE) as tokens:
        assert "".join(token.text for token in tokens) == tokens.result.text == "2021-03-23"
    with model.stream(DATE) as tokens:
        next(tokens)
    try:
        raise AssertionError(tokens.result)
    except regard.StreamBroken as error:
        assert "was closed before it ended" in str(error)


def many_requests_by_async(service):
    """Ask 550 times at once."""

    async def ask():
        async with regard.AsyncService(service.url) as known:
            dates = await known.model(service.seq2seq)
            answers = await asyncio.gather(*(dates.generate(f"{1 + at % 28} mar 2021") for at in range(550)))
            return [answer.text for answer in answers]

    assert asyncio.run(ask()) == [f"2021-03-{1 + at % 28:02}" for at in range(550)]


def reprs(service):
    """Show a service, a model, an answer and a stream in a line each."""
    known = regard.connect(service.url)
    model = known[service.images]
    assert service.url in repr(known)
    assert repr(model) == f"<regard model {service.images}: image-classification>"
    assert "label='7'" in repr(model.classify(service.picture))
    assert repr(known[service.seq2seq].stream(DATE)) == "<regard stream: 0 letters>"


def every_input(service):
    """Take a picture as a path, bytes, an open file, Pillow's, an array of bytes, whole numbers or floats."""
    model = regard.connect(service.url)[service.images]
    path = Path(service.picture)
    with Image.open(path) as opened, path.open("rb") as file:
        array = np.asarray(opened)
        given = [path, path.read_bytes(), file, opened, array, array.astype(int), array / 255]
        assert [seen.labels[0].label for seen in model.classify_batch(given)] == ["7"] * len(given)
