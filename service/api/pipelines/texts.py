"""Generated texts as Hugging Face's clients take them: the answers and events of Text Generation Inference."""

from dataclasses import dataclass

from service.answering.call import Answered
from service.answering.generations import StreamedToken
from service.api.pipelines.parameters import GenerationParameters
from service.generation.token_selection import Hypothesis
from service.http.server_sent_events import event
from service.inputs.tokenization import rest_of
from service.repository.models.generator import Generator

Json = dict[str, object]
UNFINISHED: Json = {"generated_text": None, "details": None}
"""What the events before the last one hold."""


def error_type(status: int, failed: str) -> str:
    """Return the kind of error of a status, by the names that clients know; `failed` names that of a status 500."""
    if status in (429, 503):
        return "overloaded" if status == 429 else "unhealthy"
    return "validation" if status < 500 else failed


@dataclass(frozen=True)
class WrittenText:
    """How the texts of a model are written, whole and as events."""

    served: Generator
    parameters: GenerationParameters
    prompt: str = ""
    """The input, if it is a text that is streamed."""

    @property
    def has_names_of_tasks(self) -> bool:
        """True where clients read the text by the name of their own task, such as translation."""
        return self.served.manifest.task == "text2text-generation"

    def answer(self, hypothesis: Hypothesis, prompt: str) -> Json:
        """Return what is answered of one input. Texts of models that take texts have the names of their tasks too."""
        text = self._text(hypothesis, prompt)
        shown: Json = {"generated_text": text}
        if self.has_names_of_tasks:
            shown |= {"translation_text": text, "summary_text": text}
        if self.parameters.details:
            tokens = zip(hypothesis.tokens, hypothesis.logs, strict=True)
            texts = self._texts(hypothesis)
            listed = [self._token(token, one, log) for (token, log), one in zip(tokens, texts, strict=True)]
            shown["details"] = {**self._details(hypothesis), "prefill": [], "tokens": listed}
        return shown

    def token(self, streamed: StreamedToken) -> bytes:
        """Return the event of a token; nothing for the last one, which `done` writes with the whole text."""
        if streamed.last:
            return b""
        token = self._token(streamed.token, streamed.text, streamed.log)
        return event("", {"index": streamed.index + 1, "token": token, **UNFINISHED})

    def done(self, answered: Answered[Hypothesis]) -> bytes:
        """Return the event of the last token, with the whole text."""
        (hypothesis,) = answered.shown
        token = self._token(hypothesis.tokens[-1], self._texts(hypothesis)[-1], hypothesis.logs[-1])
        return event(
            "",
            {
                "index": len(hypothesis.tokens),
                "token": token,
                "generated_text": self._text(hypothesis, self.prompt),
                "details": {**self._details(hypothesis), "input_length": answered.cost},
            },
        )

    def failed(self, status: int, detail: str) -> bytes:
        """Return the event of a failure."""
        return event("", {"error": detail, "error_type": error_type(status, "generation")})

    def _details(self, hypothesis: Hypothesis) -> Json:
        return {
            "finish_reason": self._reason(hypothesis),
            "generated_tokens": len(hypothesis.tokens),
            "seed": self.parameters.seed,
        }

    def _reason(self, hypothesis: Hypothesis) -> str:
        if hypothesis.until is not None:
            return "stop_sequence"
        return "length" if hypothesis.cut else "eos_token"

    def _text(self, hypothesis: Hypothesis, prompt: str) -> str:
        """Return the text; a word that stopped it is the end of it, as there."""
        indices = self.served.generation.without_end(hypothesis.tokens)
        return prompt * self.parameters.return_full_text + self.served.target_tokenizer.decode(indices)

    def _texts(self, hypothesis: Hypothesis) -> list[str]:
        """Return the text that each token adds: special ones none, but the last one what makes the text whole."""
        tokens = self.served.target_tokenizer.generated(hypothesis.tokens, self.served.generation.ends)
        texts = [token.text if token.span else "" for token in tokens]
        texts[-1] += rest_of(self._text(hypothesis, ""), "".join(texts))
        return texts

    def _token(self, token: int, text: str, log: float) -> Json:
        """Return a token as clients know it. Texts of special tokens are empty, so that all of them make the whole."""
        special = token in self.served.generation.ends or self.served.target_tokenizer.is_special(token)
        return {"id": token, "text": text, "logprob": log, "special": special}
