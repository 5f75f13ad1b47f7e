"""What a service says of its models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regard.errors import BadInput
from regard.maps import Json
from regard.options import AttentionOptions, Method
from regard.table import as_html

COMPARING = ("relevance", "libra", "integrated")
"""These explain a score: of embeddings what makes two of them alike, of a detector one object."""
SAID = {"image": "height", "sound": "rate", "graph": "node_types"}
"""What is said of inputs of a sort."""


@dataclass(frozen=True)
class Description:
    """A model that a service has."""

    name: str
    version: str
    task: str
    """By the names of Hugging Face: `image-classification`, `text2text-generation`, ..."""
    about: str
    endpoints: Sequence[str]
    """The first is its prediction, such as `classify`; `tasks` knows them."""
    sort: str
    """The sort of its inputs: `image`, `text`, `sound` or `graph`."""
    labels: Sequence[str]
    """The classes; empty where there are none, or too many to list."""
    methods: Sequence[Method]
    """The methods of attention that it can serve."""
    best: Method | None
    """The one of them that measured best, where that is known."""
    kinds: Mapping[str, Json]
    """`encoder`, `decoder`, `cross`: layers, heads, axes, grid."""
    max_inputs: int
    """How many inputs a request may have."""
    ready: bool
    json: Json = field(repr=False)
    """All that the service says of it."""

    def __repr__(self) -> str:
        return f"<regard model {self.name}, version {self.version}: {self.task} by {self.sort}s>"

    @property
    def takes_images(self) -> bool:
        """True if its inputs are images."""
        return self.sort == "image"

    @property
    def sent(self) -> str:
        """The sort of what may be sent to it: its own, or `either` where its partner takes texts, or pictures."""
        return "either" if self.partner else self.sort

    @property
    def partner(self) -> str | None:
        """The model that it is compared with, one of pictures and one of texts: either takes what both take."""
        contrast = self.json.get("contrast")
        return str(contrast["partner"]) if contrast else None

    @property
    def step(self) -> float | None:
        """Of a model of sounds: the seconds of a frame, which are columns of its maps; else None."""
        step: float | None = self.json["inputs"].get("step")
        return step

    @property
    def detection(self) -> Json | None:
        """Of a detector: how many `objects` it looks for in every picture, and its `threshold`; else None."""
        return self.json.get("detection")

    def asking_for(self, number: int, method: Method | None) -> AttentionOptions:
        """Return the options by which a detector's map shows one of its objects. Raises BadInput if there is none."""
        count = self.detection["objects"] if self.detection else 0
        if not 0 <= number < count:
            raise BadInput(f"object: must be 0 to {count - 1} for this model, given {number}")
        chosen = self.best if method == "best" else method or self.usual["method"]
        name, first = self._objects()
        if chosen in COMPARING:
            return {"kind": name, "target": number}
        return {"kind": name, "queries": [first + number]}

    def _objects(self) -> tuple[str, int]:
        """Return the kind of maps that has a row for each object and columns of patches, and the first object's row."""
        for name, kind in self.kinds.items():
            grid = kind["grid"]
            if grid and kind["query"] == "object":
                return name, 0
            if grid and kind["suffix"]:
                return name, kind["prefix"] + grid["rows"] * grid["columns"]
        raise BadInput("object: this model shows no patches by object")

    @property
    def usual(self) -> Json:
        """The method, and options of it, that are shown where no method is asked for, as the service says."""
        found: Json = self.json["attention"]["usual"]
        return found


class Models(list[Description]):
    """The models of a service, as a list that is read easily: a line for each in a terminal, a table in a notebook."""

    def __repr__(self) -> str:
        width = max((len(one.name) for one in self), default=0)
        return "\n".join(f"{one.name:{width}}  {one.task}  {one.about}".rstrip() for one in self)

    def _repr_html_(self) -> str:
        rows = ((one.name, one.task, one.about, ", ".join(one.methods), one.best or "") for one in self)
        return as_html(("name", "task", "about", "methods", "best"), rows)


def read_description(json: Json) -> Description:
    """Return a model's description from the service's JSON. Raises KeyError, TypeError or ValueError."""
    attention = json["attention"]
    best = attention.get("best")
    labels = json["labels"]
    return Description(
        name=json["name"],
        version=json["version"],
        task=json["task"],
        about=json.get("about", ""),
        endpoints=json["endpoints"],
        sort=_sort(json["inputs"]),
        labels=labels if isinstance(labels, list) else (),
        methods=attention["methods"],
        best=best["method"] if best else None,
        kinds=attention["kinds"],
        max_inputs=json["limits"]["inputs"],
        ready=json["ready"],
        json=json,
    )


def _sort(inputs: Json) -> str:
    """Return the sort of inputs by what is said of them; of texts nothing that others have."""
    return next((sort for sort, said in SAID.items() if said in inputs), "text")
