"""Requests to the two bundled models: paths, headers and inputs."""

import struct

from tests.conftest import ROOT

CLASSIFY, GENERATE = "/v1/models/digits/classify", "/v1/models/dates/generate"
PNG, JSON = {"Content-Type": "image/png"}, {"Content-Type": "application/json"}
DIGIT_FILES = sorted((ROOT / "tests/data/digits").iterdir())
SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
WRITTEN_DATES = ["the twenty-third of March 2021", "3/23/21", "Tue 23 Mar 2021", "23.III.2021", "MARCH 23RD,  2021"]
EVERY_MAP = {"method": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 9}
"""Options of attention."""


def packed(*elements):
    """Return elements as binary inputs of the Open Inference Protocol have them."""
    return b"".join(struct.pack("<I", len(one)) + one for one in elements)


def results(answer):
    """Return the results of an answer, which is a good one."""
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]
