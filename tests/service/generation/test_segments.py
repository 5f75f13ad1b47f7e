import random
import zlib

import pytest

from service.generation.segments import Part, compression_of, cut

FIRST = 100
STEPS = 50


def at(step):
    return FIRST + step


@pytest.mark.parametrize(
    ("target", "parts", "moved"),
    [
        ([1, 2, 3], [Part(slice(0, 3), 0, STEPS)], STEPS),
        ([at(0), 1, 2, at(20)], [Part(slice(0, 4), 0, 20)], STEPS),
        ([at(5), 1, at(5)], [Part(slice(0, 3), 0, 5)], STEPS),
        ([at(0), 1, at(0)], [Part(slice(0, 3), 0, STEPS)], STEPS),
        ([at(0), 1, at(10), at(12), 2, at(30)], [Part(slice(0, 3), 0, 10), Part(slice(3, 6), 12, 30)], STEPS),
        ([at(0), 1, at(10), at(12), 2, 3], [Part(slice(0, 3), 0, 10)], 10),
        ([at(0), 1, at(10), at(10)], [Part(slice(0, 3), 0, 10)], 10),
    ],
    ids=["no time", "one part", "its end", "nothing heard", "two parts", "cut short", "pair at the end"],
)  # fmt: skip
def test_a_target_is_cut_at_pairs_of_times(target, parts, moved):
    assert cut(target, FIRST, STEPS) == (parts, moved)


@pytest.mark.families
def test_parts_are_those_of_the_reference_library():
    import torch
    from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

    draw = random.Random(0)
    for _ in range(300):
        target, time = [at(0)], 0
        for _ in range(draw.randrange(1, 6)):
            target += [draw.randrange(FIRST) for _ in range(draw.randrange(1, 3))]
            time = min(STEPS, time + draw.randrange(0, 12))
            target += [at(time)] * draw.choice([0, 1, 2, 2])
        wanted, moved = WhisperGenerationMixin._retrieve_segment(
            torch.tensor(target), [{}], torch.zeros(1, dtype=torch.float64), FIRST, torch.tensor([2 * STEPS]),
            0.02, 0.01, 2, 0, 0, False, torch.zeros(1, 3),
        )  # fmt: skip
        parts, ours = cut(target, FIRST, STEPS)
        assert ours * 2 == int(moved), target
        assert [round(part.end * 0.02, 2) for part in parts] == [round(float(one["end"]), 2) for one in wanted], target
        heard = [[token for token in target[part.tokens] if token < FIRST] for part in parts]
        assert heard == [[token for token in one["tokens"].tolist() if token < FIRST] for one in wanted], target


def test_what_repeats_itself_is_squeezed():
    assert compression_of([7] * 200, 51_864) > 10
    tokens = random.Random(1).sample(range(51_864), 60)
    assert compression_of(tokens, 51_864) < 1.1
    assert compression_of(tokens, 51_864) == 120 / len(
        zlib.compress(b"".join(token.to_bytes(2, "little") for token in tokens))
    )
