"""The service's search, driven by a definition instead of graphs."""

import torch

from service.arrays import log_softmax
from service.options.generation import GenerateOptions
from service.repository.models.generator import Generator
from service.settings import Settings


class Searching(Generator):
    """The service's choice of a search, for a source that was not exported."""

    def __init__(self, source):
        self.generation, self.settings = source.generation, Settings()


@torch.no_grad()
def generated(source, tokens, asked, pixels=None):
    """Return the target of the service's search, driven by our definition, which computes every step anew.

    It is of the tokens of a text, or without them of pixels (1, height, width, channels).
    """
    rules = source.generation
    search = Searching(source).search(GenerateOptions(**asked), tokens)
    while not search.done:
        live = [one.tokens for one in search.live]
        if rules.start is None:
            feed = (torch.tensor([[*tokens, *target] for target in live]),)
        else:
            start = Searching(source)._rules(GenerateOptions(**asked)).start
            rows, targets = torch.tensor([tokens] * len(live)), torch.tensor([[start, *target] for target in live])
            seen = (
                (rows, torch.ones_like(rows, dtype=torch.bool))
                if pixels is None
                else (pixels.expand(len(live), -1, -1, -1),)
            )
            feed = *seen, targets
        search.advance(log_softmax(source.traced.observe(*feed).answer[:, -1].numpy()))
    return list(rules.without_end(search.best().tokens))
