"""The files with which the Python client shows answers in notebooks: written by `python -m service.api.page.inline`."""

from pathlib import Path

from service.api.page.joined import PAGE, joined

CLIENT = Path(__file__).parents[3] / "client" / "regard" / "static"
STYLES = ("style.css", "views.css", "inline.css")
LICENCES = "LICENSES.preact.txt"


def files() -> dict[str, str]:
    """Return the text of each file by its name: the page's modules as one script, its styles, and the licences."""
    return {
        "inline.js": joined("inline.js"),
        "inline.css": "".join((PAGE / name).read_text(encoding="utf-8") for name in STYLES),
        LICENCES: (PAGE / LICENCES).read_text(encoding="utf-8"),
    }


if __name__ == "__main__":
    for name, text in files().items():
        (CLIENT / name).write_text(text, encoding="utf-8")
