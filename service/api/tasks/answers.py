"""Our own protocol: how an answer or its events are written."""

from dataclasses import dataclass

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.generations import StreamedToken
from service.api import responses
from service.api.reading.request_parsing import MEDIA_TYPES
from service.explanations.answer import npz
from service.explanations.answer_drawing import draw
from service.explanations.pictures import png
from service.http.server_sent_events import event
from service.options.base import RequestOptions
from service.repository.models.generator import Generator
from service.repository.models.served_model import ServedModel


@dataclass(frozen=True)
class Answer:
    """Writes the answer to a call, in the form that it asks for."""

    call: Call[ServedModel]
    options: RequestOptions

    async def __call__(self, answered: Answered[dict[str, object]]) -> Response:
        """Return the answer. Raises what drawing a picture does."""
        call, query = self.call, self.call.query
        if query is None or query.form == "json":
            return await call.present(lambda: responses.respond(document(call.served, answered)))
        answers = [attention for _, attention in answered.results if attention]
        if query.form == "npz":
            frame = responses.answer(answered.id, call.served, [])
            return Response(await call.present(npz, frame, answers), media_type=MEDIA_TYPES["npz"])
        pictures = []
        for number, (given, shown) in enumerate(zip(call.inputs, answers, strict=True), start=1):
            sides = [(given, shown, shown.titled(number))]
            if shown.opposite and answered.compared is not None:
                sides.append((answered.compared, shown.opposite, "against"))
            for sent, side, title in sides:
                async with call.modality.upright(call.state, sent, call.caller(self.options)) as pixels:
                    drawn = await call.present(draw, side, pixels, call.state.settings.max_image_pixels)
                pictures.append((title, drawn))
        return Response(await call.present(png, pictures), media_type=MEDIA_TYPES["png"])


@dataclass(frozen=True)
class NativeEvents:
    """Writes the events `token`, `done` and `error` of a stream."""

    served: Generator

    def token(self, streamed: StreamedToken) -> bytes:
        """Return the event of a token."""
        body: dict[str, object] = {"index": streamed.index, "token": streamed.token, "text": streamed.shown}
        body |= responses.alternatives(self.served, streamed.alternatives)
        return event("token", body | {"attention": streamed.attention} if streamed.attention else body)

    def done(self, answered: Answered[dict[str, object]]) -> bytes:
        """Return the last event, with the whole answer."""
        return event("done", document(self.served, answered))

    def failed(self, status: int, detail: str) -> bytes:
        """Return the event of a failure."""
        return event("error", {"status": status, "detail": detail})


def document(served: ServedModel, answered: Answered[dict[str, object]]) -> dict[str, object]:
    """Return the document of an answer."""
    results = [responses.result(shown or {}, attention) for shown, attention in answered.results]
    return responses.answer(answered.id, served, results)
