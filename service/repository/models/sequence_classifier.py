"""Classifiers of an encoder-decoder that is given a text on both sides: BART's (Lewis et al. 2020, section 3.1)."""

from collections.abc import Mapping, Sequence

from contract.manifest import Role
from service.arrays import Array
from service.batching.fair_queue import Caller
from service.errors import Refusal
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput
from service.inputs.text_inputs import TextInputs
from service.repository.models.gradient_jobs import Found, GradientJob
from service.repository.models.predictor import Classifier
from service.repository.models.served_model import Prediction


class SequenceClassifier(Classifier):
    """A classifier whose graphs answer at every token of the decoder; what it says of a text is at the last one."""

    inputs: TextInputs

    async def predict(self, item: ModelInput, caller: Caller) -> Prediction:
        """Return the logits of a text, of which tokens may have been taken away: then the decoder is fed others."""
        return await super().predict(self.inputs.with_decoder(item), caller)

    def prediction_of(self, out: Mapping[str, Sequence[Array]], row: int, item: ModelInput) -> Prediction:
        """Return the logits of the classes at the last token of a text."""
        every: Array = super().prediction_of(out, row, item)
        last: Prediction = every[-1]
        return last

    def run_gradient(self, role: Role, jobs: Sequence[GradientJob]) -> list[Found | Refusal]:
        """Run the graph of a gradient method; of its answer, the last token counts."""
        answer = self.manifest.answers[0].name
        return [
            {**one, answer: one[answer][-1]} if isinstance(one, dict) and answer in one else one
            for one in super().run_gradient(role, jobs)
        ]

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return what a gradient method explains of an input: classes at the last token."""
        last = item.lengths["target"] - 1
        return [Target(index, (last,), last) for index in query.targets or (-1,)]
