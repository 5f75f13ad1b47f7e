"""Models of speech whose frames write characters (connectionist temporal classification)."""

from service.errors import Unacceptable
from service.explanations import ctc
from service.explanations.query import AttentionQuery
from service.explanations.selection import Target
from service.explanations.spoken_words import Word
from service.inputs.model_input import ModelInput, Text
from service.inputs.sound_inputs import SoundInputs
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction
from service.repository.models.transcript import Segment, Transcript


class Recognizer(Predictor):
    """A model of speech without a decoder: logits over characters for every frame of a sound."""

    tasks = ("automatic-speech-recognition",)
    endpoints = ("transcribe", "attention")
    answers_places = True
    inputs: SoundInputs

    def read(self, prediction: Prediction) -> ctc.Transcript:
        """Return what the frames write, with characters and words."""
        return ctc.read(prediction, self.manifest.labels, self.inputs.rule.step)

    def transcript(self, prediction: Prediction) -> Transcript:
        """Return what the frames write, as one segment."""
        found, duration = self.read(prediction), len(prediction) * self.inputs.rule.step
        words = tuple(Word(f" {one.text}", one.start, one.end, one.probability) for one in found.words)
        segments = (Segment(0.0, duration, found.text, words=words),) if found.text else ()
        return Transcript(None, duration, segments, ())

    def targets(self, item: ModelInput, query: AttentionQuery) -> list[Target]:
        """Return the words that are explained, once they are known; by default the first."""
        return [Target(-1, (), 0, number) for number in query.targets or (0,)]

    def targets_after(
        self, item: ModelInput, query: AttentionQuery, prediction: Prediction, text: Text
    ) -> list[Target]:
        """Return the words that a gradient method explains, each at the frame where it is surest.

        Raises Unacceptable for a word that is not there.
        """
        words = self.read(prediction).words
        found = []
        for number in query.targets or (0,):
            if number >= len(words):
                raise Unacceptable(f"target: must be a word, of which there are {len(words)}, given {number}")
            frame = words[number].frame
            found.append(Target(int(prediction[frame].argmax()), (frame,), frame, number))
        return found

    def target_entry(self, target: Target, prediction: Prediction) -> dict[str, object]:
        """Return what an answer says of a target: a word, and the character and frame at which it is explained."""
        words = self.read(prediction).words
        number = target.index or 0
        label = words[number].text if number < len(words) else ""
        entry = {"word": number, "label": label, "character": self.manifest.label_of(target.token)}
        return {**entry, "position": target.position}
