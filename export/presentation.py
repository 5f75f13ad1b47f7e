"""How the bundled models present themselves: a sentence, examples of what each was trained on, and their order."""

import dataclasses

from export.errors import CheckpointError
from export.examples import PHOTOS, Texts, with_each, with_files, with_texts
from export.plan import Source
from model.architectures.vit_variants import VARIANTS
from model.catalogue import BUNDLED

DATES = (
    ("the twenty-third of March 2021",),
    ("3/23/21",),
    ("Tue 23 Mar 2021",),
    ("We met on 4 July 1996, a Thursday.",),
)
FILES = {
    "digits": ("seven.png", "three.png", "zero.png", "six.png", "eight.png", "four.png", "two.png", "nine.png"),
    "captions-soft": ("260.png", "37165.png", "89.png", "5934.png"),
    "scenes-swin": ("6173-6.png", "0534-5.png", "4387-8.png", "1597-7.png"),
    "scenes-clip": ("red-7-blue-2.png", "yellow-3-green-3.png", "white-5-purple-0-red-5.png", "blue-4.png"),
    "scenes-dino": ("seven.png", "five.png", "nine.png", "six.png"),
    "spoken-digits": ("907.wav", "42.wav", "31415.wav"),
    "photos": tuple(file.name for file in PHOTOS),
    "whisper-tiny-en": ("museum.wav", "train.wav", "key.wav"),
}
"""The pictures and sounds in the folder `examples` of these models in `model/bundled/`, in the order they are shown."""
LABELS = {
    "scenes-clip": (
        ("a red seven", "a blue two", "a green four", "a white one"),
        ("a yellow three", "a green three", "a purple eight"),
        ("a red five", "a purple zero", "a green two"),
        ("a blue four", "a red four", "a blue one"),
    ),
}
"""The labels of each of these pictures, of models that compare pictures with labels."""


@dataclasses.dataclass(frozen=True)
class Presentation:
    """What is said of a model, and its examples: texts, or the pictures or sounds of a model in FILES.

    `partner` presents the model of texts that is exported with one of pictures.
    """

    about: str
    texts: tuple[Texts, ...] = ()
    files_of: str = ""
    partner: "Presentation | None" = None


def _dates(how: str) -> Presentation:
    return Presentation(f"Reads a date, in words or in figures, and writes it as 2021-03-23. {how}", DATES)


def graphs_of(name: str) -> tuple[Texts, ...]:
    """Return the graphs in the folder `examples` of a bundled model, each as JSON."""
    return tuple((file.read_text().strip(),) for file in sorted((BUNDLED / name / "examples").glob("*.json")))


def _captions(how: str) -> Presentation:
    return Presentation(
        f"Reads the handwritten digits of a picture and writes them as words. {how}", files_of="captions-soft"
    )


PRESENTATIONS: dict[str, Presentation] = {
    "photos": Presentation(
        "Turns a photograph into 384 numbers, so that photographs of alike things can be found, and their parts in one "
        "another. DINOv2 ViT-S/14, which learned without labels.",
        files_of="photos",
    ),
    "digits": Presentation(
        "Recognises a handwritten digit, on paper, on a blackboard or drawn. A small Vision Transformer.",
        files_of="digits",
    ),
    "dates": _dates("A Transformer with an encoder and a decoder, trained on dates alone."),
    "scenes-detr": Presentation(
        "Finds the handwritten digits of a picture: which they are, and where. A small DETR.",
        files_of="captions-soft",
    ),
    "scenes-swin": Presentation(
        "Reads the digit that stands in the marked quarter of a picture. A small Swin, which looks around in windows.",
        files_of="scenes-swin",
    ),
    "scenes-clip": Presentation(
        "Says which of your labels is true of a picture of coloured digits, and where: type some, such as a red seven, "
        "a blue digit or a two. A small CLIP.",
        files_of="scenes-clip",
        partner=Presentation(
            "Turns a label such as a red seven and a blue two into 64 numbers, with which scenes-clip compares "
            "pictures.",
            with_each(
                {
                    "a red seven": ("a seven", "a red digit", "a blue seven", "a red two"),
                    "a red seven and a blue two": ("a blue two and a red seven", "a blue seven and a red two"),
                }
            ),
        ),
    ),
    "whisper-tiny-en": Presentation(
        "Writes what is said in English, with the time of each word (Whisper tiny.en).", files_of="whisper-tiny-en"
    ),
    "spoken-digits": Presentation(
        "Writes spoken English digits in words, up to five in three seconds. A Speech-Transformer, which attends along "
        "time and along frequency.",
        files_of="spoken-digits",
    ),
    "graphs-graphormer": Presentation(
        "Says which colour the node has that is three edges away from the marked one. A small Graphormer, a "
        "Transformer that is told how far apart nodes are.",
        graphs_of("graphs-graphormer"),
    ),
    "graphs-gtn": Presentation(
        "Says by which two relations one comes from the start to the end. A small Graph Transformer Network, which "
        "composes paths of relations that it chooses.",
        graphs_of("graphs-gtn"),
    ),
    "captions-soft": _captions("Each word looks at every part of the picture, at some more than at others."),
    "dates-clm": Presentation(
        "Continues a line that begins with a written date, character by character, as GPT-2 does.",
        (
            ("the twenty-third of march 2021 =",),
            ("march 3, 2021 =",),
            ("tue 23 mar",),
        ),
    ),
    "dates-mlm": Presentation(
        "Finds the characters that are missing in a date and its reading, as BERT does.",
        (
            ("march 3, 20[MASK]1 = 2021-03-03",),
            ("twenty-th[MASK]rd of april 1999 = 1999-04-23",),
            ("tue 23 [MASK]ar 2021 = 20[MASK]1-03-23",),
        ),
    ),
    "dates-tags": Presentation(
        "Finds the parts of written dates in a text: weekday, day, month and year, as entities are found.",
        (
            ("We met on Tuesday, 23 March 2021, in room 7.",),
            ("due 3/23/21 at 10:15",),
            ("from the fourth of July to 12 August 1996",),
        ),
    ),
    "dates-rank": Presentation(
        "Says how well an ISO date answers a written one, and so ranks dates; a cross-encoder, as BERT is one.",
        with_each(
            {
                "the twenty-third of march 2021": (
                    "2021-05-23",
                    "2021-03-13",
                    "2021-03-23",
                    "2012-03-23",
                    "2021-03-28",
                ),
                "3/23/21": ("2021-08-23", "2021-03-28", "2012-03-23", "2021-03-23", "2021-04-23"),
            }
        ),
    ),
    "minilm": Presentation(
        "Turns a sentence into 384 numbers, so that sentences of similar meaning can be found (all-MiniLM-L6-v2).",
        with_each(
            {
                "The cat sat on the mat.": (
                    "A kitten lay on the rug.",
                    "The dog slept by the door.",
                    "The rug is for sale.",
                    "It rained all day.",
                ),
                "How do I reset my password?": (
                    "I cannot log in to my account.",
                    "Where can I change my address?",
                    "The key does not turn in the lock.",
                ),
                "It rained all day.": (
                    "The streets were wet.",
                    "I would like a cup of tea.",
                    "The sun never stopped shining.",
                ),
            }
        ),
    ),
    "digits-dino": Presentation(
        "Turns a handwritten digit into 96 numbers. It learned without ever being told which digit is which.",
        files_of="digits",
    ),
    "scenes-dino": Presentation(
        "Turns a handwritten digit, anywhere on a ground of any texture, into 96 numbers. It was never told which "
        "digit is which, nor where it stands. Rollout finds it.",
        files_of="scenes-dino",
    ),
    "spoken-tera": Presentation(
        "Turns spoken digits into 96 numbers. It learned to restore what was altered in sounds, and was never told "
        "what was said (TERA).",
        files_of="spoken-digits",
    ),
    "captions-hard": _captions("Each word looks at one part of the picture only."),
    "dates-bilinear": _dates("A Transformer whose attention scores are a learned bilinear form's."),
    "dates-recurrent": _dates("A recurrent network with attention, of the time before Transformers."),
    "dates-convolutional": _dates("A convolutional network with attention."),
    **{
        name: Presentation(
            f"Recognises a handwritten digit. A variant of the Vision Transformer: {variant.words}",
            files_of="digits",
        )
        for name, variant in VARIANTS.items()
    },
}
"""In the order in which the service lists them: what a newcomer wants to see comes first."""


def presented(source: Source) -> Source:
    """Return a bundled source, and its partner if it has one, with a sentence, examples and its place in the list."""
    return _presented(source, PRESENTATIONS[source.name], list(PRESENTATIONS).index(source.name))


def _presented(source: Source, shown: Presentation, order: int) -> Source:
    source = dataclasses.replace(source, about=" ".join(shown.about.split()), order=order)
    if source.partner and shown.partner:
        source = dataclasses.replace(source, partner=_presented(source.partner, shown.partner, order))
    if shown.files_of:
        folder = BUNDLED / shown.files_of / "examples"
        files = [folder / name for name in FILES[shown.files_of]]
        return with_files(source, files, LABELS.get(shown.files_of, ()))
    source, faults = with_texts(source, shown.texts)
    if faults:
        raise CheckpointError(f"{source.name}: an example {faults[0]}")
    return source
