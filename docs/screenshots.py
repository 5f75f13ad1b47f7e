"""Take the pictures of the page, light, dark and as on a phone, of the models in artifacts/: `make screenshots`."""

import argparse
import io
from pathlib import Path

from PIL import Image

from benchmarks.browser import chromium
from benchmarks.running_service import served

ROOT = Path(__file__).parent.parent
SHOTS = {
    "page-light": ("#model=photos", "light", (1440, 1000)),
    "page-dark": ("#model=digits&example=2&method=relevance", "dark", (1440, 1000)),
    "page-text": ("#model=dates&example=1&view=lines&method=raw", "light", (1440, 1000)),
    "page-objects": ("#model=scenes-detr&example=1&object=5", "light", (1440, 1000)),
    "page-graph": ("#model=graphs-graphormer", "light", (1440, 1000)),
    "page-phone": ("#model=captions-soft&example=1&row=0", "light", (390, 1400)),
}
"""Address, colour scheme, and size in CSS pixels, by name."""


def shot(browser, base, address, scheme, size):
    """Return a picture of the page at an address, once everything is drawn."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{base}/{address}")
    page.wait_for_selector("body[data-busy=false] #look .readout")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)  # the last frame
    taken = page.screenshot()
    context.close()
    return Image.open(io.BytesIO(taken)).convert("RGB")


def main():
    """Write docs/pictures/page-*.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--artifacts", type=Path, default=ROOT / "artifacts", help="has photos and all of the models in SHOTS"
    )
    parser.add_argument("--to", type=Path, default=ROOT / "docs/pictures")
    arguments = parser.parse_args()
    with served(arguments.artifacts) as client, chromium() as browser:
        for name, (address, scheme, size) in SHOTS.items():
            picture = shot(browser, str(client.base_url).rstrip("/"), address, scheme, size)
            picture.save(arguments.to / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
