"""OpenAI's protocol: embeddings, completions, speech. Each finds its model in what was sent and has it answered."""

import functools
from typing import TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.answering.call import Answered, Call, find_ready, narrowed
from service.answering.generations import generate
from service.answering.predictions import predict
from service.api.openai.documents import (
    ChatCompletions,
    Chunks,
    Completions,
    Embeddings,
    base64_embedding,
    completion,
    embedding,
)
from service.api.openai.errors import Errors
from service.api.openai.fields import (
    EMBEDDED,
    Asked,
    ChatOptions,
    CompletionsOptions,
    EmbeddingsOptions,
    WritingOptions,
    read,
    read_chat,
    read_embedded,
)
from service.api.openai.speech_documents import SpeechEvents, write
from service.api.openai.speech_fields import TranscriptionsOptions, TranslationsOptions
from service.api.openai.speech_fields import read as read_sound
from service.api.reading.call import call_of
from service.api.tasks.transcription import fitted
from service.api.tasks.transcription import write as write_speech
from service.api.tasks.vectors import as_asked
from service.errors import NotFound, called
from service.http.answer_deadline import answer_in_time
from service.http.exchange import exchange_of
from service.inputs.chat_inputs import why_no_chat
from service.repository.models.generator import Generator
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import ServedModel
from service.repository.models.transcript import Transcript
from service.state import State, StateDep

S = TypeVar("S", bound=ServedModel)

router = APIRouter()
COMPLETIONS_ERRORS = Errors(CompletionsOptions, {"generate": "model", "input": "prompt"})
CHAT_ERRORS = Errors(ChatOptions, {"generate": "model", "chat": "model", "input": "messages"})
OF_SOUNDS = {"transcribe": "model", "audio": "file", "timestamps": "response_format"}
TRANSCRIPTIONS_ERRORS = Errors(TranscriptionsOptions, OF_SOUNDS)
ERROR_FORMS = {
    "/v1/audio/transcriptions": TRANSCRIPTIONS_ERRORS,
    "/v1/audio/translations": Errors(TranslationsOptions, OF_SOUNDS),
    "/v1/embeddings": Errors(EmbeddingsOptions, {"embed": "model", "image": "input"}),
    "/v1/completions": COMPLETIONS_ERRORS,
    "/v1/chat/completions": CHAT_ERRORS,
}
"""How errors are written, by path."""


@router.post("/v1/embeddings", tags=["OpenAI"], operation_id="openai_embeddings")
async def embeddings(request: Request, state: StateDep) -> Response:
    """Return a vector for every input; similar ones have similar vectors."""
    return await answer_in_time(request, _embed(request, state), state.settings.request_seconds)


@router.post("/v1/completions", tags=["OpenAI"], operation_id="openai_completions")
async def completions(request: Request, state: StateDep) -> Response:
    """Continue every prompt, or turn it into another text; with `stream`, send the text as it comes."""
    return await answer_in_time(request, _complete(request, state), state.settings.request_seconds)


@router.post("/v1/audio/transcriptions", tags=["OpenAI"], operation_id="openai_transcriptions")
async def transcriptions(request: Request, state: StateDep) -> Response:
    """Write what was said in a sound, with times if asked for; with `stream`, send the text as it comes."""
    work = _transcribe(request, state, TranscriptionsOptions)
    return await answer_in_time(request, work, state.settings.request_seconds)


@router.post("/v1/audio/translations", tags=["OpenAI"], operation_id="openai_translations")
async def translations(request: Request, state: StateDep) -> Response:
    """Write in English what was said in a sound."""
    work = _transcribe(request, state, TranslationsOptions)
    return await answer_in_time(request, work, state.settings.request_seconds)


@router.post("/v1/chat/completions", tags=["OpenAI"], operation_id="openai_chat_completions")
async def chat(request: Request, state: StateDep) -> Response:
    """Answer the messages of a chat; with `stream`, send the text as it comes."""
    return await answer_in_time(request, _chat(request, state), state.settings.request_seconds)


def _find(request: Request, state: State, asked: Asked, endpoint: str, kind: type[S]) -> S:
    """Return the model that is asked for, which takes such inputs. Raises NotFound and NotReady."""
    served = narrowed(find_ready(state, asked.model, endpoint, kind).taking(asked.inputs), kind)
    exchange_of(request.scope).model = served.manifest.name
    if (modality := served.inputs.modality) != asked.modality:
        here = f" with modality {modality}, or" if endpoint == "embed" and modality in EMBEDDED else ""
        raise NotFound(
            f"{endpoint}: takes {served.inputs.plural},{here} at POST /v1/models/{served.manifest.name}/{endpoint}"
        )
    return served


async def _embed(request: Request, state: State) -> Response:
    asked = await read_embedded(request, state.settings)
    served = _find(request, state, asked, "embed", Predictor)
    options = asked.options(EMBEDDED[asked.modality])
    call = call_of(request, state, served, asked.parsed)
    cut = as_asked(options)
    write = base64_embedding if options.encoding_format == "base64" else embedding
    with served.used():
        return await predict(call, options, lambda vector: write(cut(vector)), Embeddings(call))


async def _complete(request: Request, state: State) -> Response:
    asked = await read(request, state.settings, "prompt")
    served = _find(request, state, asked, "generate", Generator)
    return await _written(request, state, asked, served, CompletionsOptions, Completions, COMPLETIONS_ERRORS)


async def _chat(request: Request, state: State) -> Response:
    asked = await read_chat(request, state.settings)
    served = _find(request, state, asked, "generate", Generator)
    rule = served.manifest.text
    if rule and not rule.chat:
        raise NotFound(f"chat: {why_no_chat(rule)}; send a prompt to POST /v1/completions")
    return await _written(request, state, asked, served, ChatOptions, ChatCompletions, CHAT_ERRORS)


async def _written(
    request: Request,
    state: State,
    asked: Asked,
    served: Generator,
    kind: type[WritingOptions],
    document: type[Completions],
    errors: Errors,
) -> Response:
    """Return a document of what is generated, or its chunks."""
    options = asked.options(kind)
    generating = options.generating(served.generation)
    call = call_of(request, state, served, asked.parsed)
    show = functools.partial(completion, served)
    whole = document(call, with_logs=options.with_logs)
    chunks = Chunks(whole, errors, with_usage=options.stream_options)
    with served.uses.used(), called("max_new_tokens", options.limit):
        return await generate(call, generating, show, whole, chunks)


async def _transcribe(request: Request, state: State, kind: type[TranslationsOptions]) -> Response:
    model, sound, options = await read_sound(request, state.settings, kind)
    served = find_ready(state, model, "transcribe", ServedModel)
    exchange = exchange_of(request.scope)
    exchange.model = served.manifest.name

    async def respond(answered: Answered[Transcript]) -> Response:
        return write(answered.shown[0], options)

    call = Call(state, exchange, served, [sound])
    with served.uses.used():
        own = fitted(served, options.asked)
        return await write_speech(call, own, lambda one: one, respond, SpeechEvents(TRANSCRIPTIONS_ERRORS))
