"""A model of a service: a method for each task."""

# Written by `python -m client.signatures`: change its rows, or the options of a task, and run it.
# fmt: off

from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Literal, overload

from PIL import Image

from regard import comparing, plans
from regard.asking import A, Asks, Stream
from regard.attention import Attention
from regard.inputs import Input, Picture, Sound, Text, with_rate, with_rates
from regard.maps import Json, KindName
from regard.options import AskedAttention, Indices, LookedAt, LookOptions, Method, PictureOptions
from regard.plain import kept
from regard.results import Look, Result
from regard.showing import opened
from regard.tasks.answering import ANSWER, Answered, AnswerOptions
from regard.tasks.classification import CLASSIFY, Classification, ClassifyOptions
from regard.tasks.detection import DETECT, Detection, DetectOptions
from regard.tasks.embedding import EMBED, CompareOptions, Embedding, EmbedOptions
from regard.tasks.fill_mask import FILL_MASK, Filled, FillMaskOptions
from regard.tasks.generation import GENERATE, GenerateOptions, Generation, StreamedToken
from regard.tasks.ranking import Ranked, RerankOptions
from regard.tasks.similarity import Similarity
from regard.tasks.sparse_embedding import EMBED_SPARSE, SparseEmbedding, SparseOptions
from regard.tasks.tagging import TAG, Tagged, TagOptions
from regard.tasks.task import ATTENTION
from regard.tasks.transcription import TRANSCRIBE, Segment, TranscribeOptions, Transcription


class Model(Asks[A]):
    """A model of a service. Called with an input, it answers what it was made for.

    Pictures are paths, addresses, the bytes of files, open files, Pillow images, arrays or tensors; texts are strings,
    or pairs of strings; sounds are paths, addresses, files, or arrays with their rate; graphs are dictionaries, those
    of networkx, or paths.
    """

    def classify(
        self, given: Input, *, top_k: int | None = None, labels: Sequence[str] | None = None,
        template: str | None = None, multi_label: bool | None = None, truncate: bool | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Classification:
        """Return the likeliest classes of a picture, a text or a graph.

        - `top_k`: How many classes, best first (5; all of `labels`).
        - `labels`: Zero-shot: labels to choose from, of models of entailment, or that compare pictures with texts (the
          model's).
        - `template`: The sentence of a label, which stands for {} ("This example is {}.", of pictures "This is a photo
          of {}.").
        - `multi_label`: Each label for itself, rather than one of them (False).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.classify("seven.png", top_k=3).labels[0].label`
        """
        return self._one(CLASSIFY, given, kept(ClassifyOptions, locals()))

    def classify_batch(
        self, given: Iterable[Input], *, top_k: int | None = None, labels: Sequence[str] | None = None,
        template: str | None = None, multi_label: bool | None = None, truncate: bool | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Classification]:
        """Return the likeliest classes of each of several pictures, texts or graphs. Options are those of
        `classify`."""
        return self._all(CLASSIFY, given, kept(ClassifyOptions, locals()))

    def detect(
        self, given: Picture, *, threshold: float | None = None, top_k: int | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Detection:
        """Return the objects of a picture: which they are, and where.

        - `threshold`: The probability from which an object counts as found, 0 to 1 (the model's own).
        - `top_k`: How many objects at most, surest first (100).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.detect("street.jpg", threshold=0.5).objects[0].box`
        """
        return self._one(DETECT, given, kept(DetectOptions, locals()))

    def detect_batch(
        self, given: Iterable[Picture], *, threshold: float | None = None, top_k: int | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Detection]:
        """Return the objects of each of several pictures. Options are those of `detect`."""
        return self._all(DETECT, given, kept(DetectOptions, locals()))

    def embed(
        self, given: Input, *, normalize: bool | None = None, prompt_name: str | None = None, prompt: str | None = None,
        dimensions: int | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None, truncate: bool | None = None,
    ) -> Embedding:
        """Return a text, a picture, a sound or a graph as a vector.

        - `normalize`: Divide each vector by its length (as the model was made; True with `dimensions`).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `dimensions`: The first numbers of a vector alone, which is of length one then unless `normalize` is false
          (all).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).

        Example: `model.embed("A cat sat.", dimensions=64).vector`
        """
        return self._one(EMBED, given, kept(EmbedOptions, locals()))

    def embed_batch(
        self, given: Iterable[Input], *, normalize: bool | None = None, prompt_name: str | None = None,
        prompt: str | None = None, dimensions: int | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None, truncate: bool | None = None,
    ) -> list[Embedding]:
        """Return each of several texts, pictures, sounds or graphs as a vector. Options are those of `embed`."""
        return self._all(EMBED, given, kept(EmbedOptions, locals()))

    def embed_sparse(
        self, given: Text, *, top_k: int | None = None, prompt_name: str | None = None, prompt: str | None = None,
        truncate: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> SparseEmbedding:
        """Return the words that a text is about, with their weights.

        - `top_k`: How many words, heaviest first (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.embed_sparse("A cat sat.", top_k=8).words[0].text`
        """
        return self._one(EMBED_SPARSE, given, kept(SparseOptions, locals()))

    def embed_sparse_batch(
        self, given: Iterable[Text], *, top_k: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, truncate: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> list[SparseEmbedding]:
        """Return the words that each of several texts is about. Options are those of `embed_sparse`."""
        return self._all(EMBED_SPARSE, given, kept(SparseOptions, locals()))

    def fill_mask(
        self, given: Text, *, top_k: int | None = None, truncate: bool | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Filled:
        """Return candidates for every mask of a text.

        - `top_k`: How many candidates for every mask, best first (5).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.fill_mask("A [MASK] sat.").candidates[0][0].text`
        """
        return self._one(FILL_MASK, given, kept(FillMaskOptions, locals()))

    def fill_mask_batch(
        self, given: Iterable[Text], *, top_k: int | None = None, truncate: bool | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Filled]:
        """Return candidates for every mask of each of several texts. Options are those of `fill_mask`."""
        return self._all(FILL_MASK, given, kept(FillMaskOptions, locals()))

    def tag(
        self, given: Text, *, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        truncate: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> Tagged:
        """Return the entities of a text.

        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.tag("We met on 4 July.", aggregate="first").entities[0].label`
        """
        return self._one(TAG, given, kept(TagOptions, locals()))

    def tag_batch(
        self, given: Iterable[Text], *, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        truncate: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Tagged]:
        """Return the entities of each of several texts. Options are those of `tag`."""
        return self._all(TAG, given, kept(TagOptions, locals()))

    def answer(
        self, question: str, context: str, *, top_k: int | None = None, most_tokens: int | None = None,
        stride: int | None = None, impossible: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> Answered:
        """Return what answers a question in a context.

        - `top_k`: How many answers there are, best first (1).
        - `most_tokens`: How many tokens an answer has at most (15).
        - `stride`: How many tokens a window of a long context shares with the one before (128, or half of a smaller
          one).
        - `impossible`: Whether there may be no answer: an empty one, with a score of its own (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.answer("Who sat?", "A cat sat.", top_k=2).text`
        """
        return self._one(ANSWER, (question, context), kept(AnswerOptions, locals()))

    def answer_batch(
        self, given: Iterable[tuple[str, str]], *, top_k: int | None = None, most_tokens: int | None = None,
        stride: int | None = None, impossible: bool | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Answered]:
        """Return what answers each of several questions, each with its context. Options are those of `answer`."""
        return self._all(ANSWER, given, kept(AnswerOptions, locals()))

    def generate(
        self, given: Input, *, max_new_tokens: int | None = None, num_beams: int | None = None,
        length_penalty: float | None = None, temperature: float | None = None, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, typical_p: float | None = None, seed: int | None = None,
        repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None,
        bad_words: Sequence[str | Sequence[int]] | None = None, stop: str | Sequence[str] | None = None,
        num_return_sequences: int | None = None, alternatives: int | None = None, source_language: str | None = None,
        target_language: str | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> Generation:
        """Return the text that the model writes for a text, the messages of a chat or a picture.

        - `max_new_tokens`: How many tokens are written at most (the model's).
        - `num_beams`: Hypotheses of a beam search; 1 takes the likeliest token each time (the model's).
        - `length_penalty`: Scores are divided by length to this power (the model's).
        - `temperature`: Divides the logits before a token is drawn; 0 takes the likeliest (the model's).
        - `top_k`: Draws among this number of the likeliest tokens (the model's).
        - `top_p`: Draws among the likeliest tokens that have this probability together (the model's).
        - `min_p`: Draws tokens that have at least this part of the likeliest one's probability (the model's).
        - `typical_p`: Draws typical tokens that have this probability together (the model's).
        - `seed`: The same seed draws the same tokens (another each time).
        - `repetition_penalty`: Above 1, tokens that came already become less likely (the model's).
        - `no_repeat_ngram_size`: Sequences of this number of tokens come once (the model's).
        - `bad_words`: Words, or lists of tokens, that are never written (the model's).
        - `stop`: Up to four strings: a text ends before the first of them (none).
        - `num_return_sequences`: How many texts are answered: those behind the first are its `others` (1).
        - `alternatives`: How many of the likeliest tokens are answered for each place (0).
        - `source_language`: Of models of several languages: that of the text (the model's).
        - `target_language`: Of models of several languages: that of the answer (the model's).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.generate("3/23/21", num_beams=4).text`
        """
        return self._one(GENERATE, given, kept(GenerateOptions, locals()))

    def generate_batch(
        self, given: Iterable[Input], *, max_new_tokens: int | None = None, num_beams: int | None = None,
        length_penalty: float | None = None, temperature: float | None = None, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, typical_p: float | None = None, seed: int | None = None,
        repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None,
        bad_words: Sequence[str | Sequence[int]] | None = None, stop: str | Sequence[str] | None = None,
        num_return_sequences: int | None = None, alternatives: int | None = None, source_language: str | None = None,
        target_language: str | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Generation]:
        """Return the text that the model writes for each of several texts or pictures. Options are those of
        `generate`."""
        return self._all(GENERATE, given, kept(GenerateOptions, locals()))

    def stream(
        self, given: Input, *, max_new_tokens: int | None = None, num_beams: int | None = None,
        length_penalty: float | None = None, temperature: float | None = None, top_k: int | None = None,
        top_p: float | None = None, min_p: float | None = None, typical_p: float | None = None, seed: int | None = None,
        repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None,
        bad_words: Sequence[str | Sequence[int]] | None = None, stop: str | Sequence[str] | None = None,
        num_return_sequences: int | None = None, alternatives: int | None = None, source_language: str | None = None,
        target_language: str | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None,
    ) -> Stream[StreamedToken, Generation]:
        """Return the tokens of a text as the model writes them. With `attention={"kind": "cross", "steps": True}`
        each holds what the model read while it wrote it.

        - `max_new_tokens`: How many tokens are written at most (the model's).
        - `num_beams`: Hypotheses of a beam search; 1 takes the likeliest token each time (the model's).
        - `length_penalty`: Scores are divided by length to this power (the model's).
        - `temperature`: Divides the logits before a token is drawn; 0 takes the likeliest (the model's).
        - `top_k`: Draws among this number of the likeliest tokens (the model's).
        - `top_p`: Draws among the likeliest tokens that have this probability together (the model's).
        - `min_p`: Draws tokens that have at least this part of the likeliest one's probability (the model's).
        - `typical_p`: Draws typical tokens that have this probability together (the model's).
        - `seed`: The same seed draws the same tokens (another each time).
        - `repetition_penalty`: Above 1, tokens that came already become less likely (the model's).
        - `no_repeat_ngram_size`: Sequences of this number of tokens come once (the model's).
        - `bad_words`: Words, or lists of tokens, that are never written (the model's).
        - `stop`: Up to four strings: a text ends before the first of them (none).
        - `num_return_sequences`: How many texts are answered: those behind the first are its `others` (1).
        - `alternatives`: How many of the likeliest tokens are answered for each place (0).
        - `source_language`: Of models of several languages: that of the text (the model's).
        - `target_language`: Of models of several languages: that of the answer (the model's).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `for token in model.stream("3/23/21"): print(token.text)`
        """
        return self._stream(GENERATE, given, kept(GenerateOptions, locals()))

    @overload
    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: Literal[True], language: str | None = None,
        task: Literal["transcribe", "translate"] | None = None,
        timestamps: Literal["none", "word", "segment"] | None = None, prompt: str | None = None,
        temperature: float | None = None, num_beams: int | None = None, seed: int | None = None,
        condition_on_previous_text: bool | None = None, compression_ratio_threshold: float | EllipsisType | None = ...,
        logprob_threshold: float | EllipsisType | None = ..., no_speech_threshold: float | EllipsisType | None = ...,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Stream[Segment, Transcription]: ...

    @overload
    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: Literal[False] = False, language: str | None = None,
        task: Literal["transcribe", "translate"] | None = None,
        timestamps: Literal["none", "word", "segment"] | None = None, prompt: str | None = None,
        temperature: float | None = None, num_beams: int | None = None, seed: int | None = None,
        condition_on_previous_text: bool | None = None, compression_ratio_threshold: float | EllipsisType | None = ...,
        logprob_threshold: float | EllipsisType | None = ..., no_speech_threshold: float | EllipsisType | None = ...,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Transcription: ...

    def transcribe(
        self, given: Sound, rate: int | None = None, *, stream: bool = False, language: str | None = None,
        task: Literal["transcribe", "translate"] | None = None,
        timestamps: Literal["none", "word", "segment"] | None = None, prompt: str | None = None,
        temperature: float | None = None, num_beams: int | None = None, seed: int | None = None,
        condition_on_previous_text: bool | None = None, compression_ratio_threshold: float | EllipsisType | None = ...,
        logprob_threshold: float | EllipsisType | None = ..., no_speech_threshold: float | EllipsisType | None = ...,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Stream[Segment, Transcription] | Transcription:
        """Return what was said in a sound; with `stream`, its segments as they are heard. `rate` is the samples a
        second of an array.

        - `language`: That is spoken, such as "en" (found by the model).
        - `task`: "translate": into English ("transcribe").
        - `timestamps`: What is answered with the seconds in which it was heard ("none").
        - `prompt`: Text as if heard before: names, and a style (none).
        - `temperature`: Divides the logits before a token is drawn (0, and more where a text repeats itself or is
          unlikely).
        - `num_beams`: Hypotheses of a beam search (the model's).
        - `seed`: The same seed draws the same tokens (another each time).
        - `condition_on_previous_text`: Whether each window is heard as what follows the one before (the model's).
        - `compression_ratio_threshold`: A text that packs better repeats itself, and is heard again; None: never (the
          model's).
        - `logprob_threshold`: A text whose tokens are less likely on average is heard again; None: never (the model's).
        - `no_speech_threshold`: A window that is silence with this probability, and unlikely, is left out; None: never
          (the model's).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.transcribe("talk.wav", timestamps="word").srt()`
        """
        sound = with_rate(given, rate)
        if stream:
            return self._stream(TRANSCRIBE, sound, kept(TranscribeOptions, locals()))
        return self._one(TRANSCRIBE, sound, kept(TranscribeOptions, locals()))

    def transcribe_batch(
        self, given: Iterable[Sound], rate: int | None = None, *, language: str | None = None,
        task: Literal["transcribe", "translate"] | None = None,
        timestamps: Literal["none", "word", "segment"] | None = None, prompt: str | None = None,
        temperature: float | None = None, num_beams: int | None = None, seed: int | None = None,
        condition_on_previous_text: bool | None = None, compression_ratio_threshold: float | EllipsisType | None = ...,
        logprob_threshold: float | EllipsisType | None = ..., no_speech_threshold: float | EllipsisType | None = ...,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Transcription]:
        """Return what was said in each of several sounds. Options are those of `transcribe`."""
        return self._all(TRANSCRIBE, with_rates(given, rate), kept(TranscribeOptions, locals()))

    def rerank(
        self, query: str, texts: Iterable[str], *, top_k: int | None = None, raw_scores: bool | None = None,
        overflow: Literal["window"] | None = None, stride: int | None = None, truncate: bool | None = None,
        attention: Method | AskedAttention | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Ranked]:
        """Return the texts that answer a query, best first. A query is never cut off.

        - `top_k`: How many texts are answered, best first (all).
        - `raw_scores`: Answer logits, rather than scores as the model was trained for (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.rerank("Who sat?", ["A cat sat.", "It rains."], top_k=1)[0].text`
        """
        return self._ask(comparing.ranking, query, texts, kept(RerankOptions, locals()))

    def similarity(
        self, source: Input | Sequence[Input], inputs: Iterable[Input], *, prompt_name: str | None = None,
        prompt: str | None = None, dimensions: int | None = None, attention: Method | AskedAttention | None = None,
        priority: Literal["interactive", "batch"] | None = None, truncate: bool | None = None,
    ) -> list[Similarity]:
        """Return how alike each text, or picture, is to a source, or to each of several.

        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `dimensions`: The first numbers of a vector alone, which is of length one then unless `normalize` is false
          (all).
        - `attention`: Attention that comes with the answer: a method, or {"method": "raw", "layers": "all"} (none).
        - `priority`: "batch" lets others go first ("interactive").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).

        Example: `model.similarity("A cat sat.", ["A cat lay down."])[0].similarity`
        """
        return self._ask(comparing.similarity, source, inputs, kept(CompareOptions, locals()))

    def attention(
        self, given: Input, *, method: Method | None = None, kind: KindName | None = None,
        layers: Indices | None = None, heads: Indices | None = None, queries: Indices | str | None = None,
        target: int | str | Json | Sequence[int | str | Json] | None = None, threshold: float | None = None,
        against: Mapping[str, object] | object | None = None, sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> Look:
        """Return what the model looks at, without its prediction: `.attention` of the answer.

        - `method`: How maps are computed (what measured best on this model).
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").

        Example: `model.attention("seven.png", method="raw", layers="all").attention.maps`
        """
        return self._one(ATTENTION, given, plans.asked_attention(self.description, kept(LookedAt, locals())))

    def attention_batch(
        self, given: Iterable[Input], *, method: Method | None = None, kind: KindName | None = None,
        layers: Indices | None = None, heads: Indices | None = None, queries: Indices | str | None = None,
        target: int | str | Json | Sequence[int | str | Json] | None = None, threshold: float | None = None,
        against: Mapping[str, object] | object | None = None, sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None, truncate: bool | None = None, overflow: Literal["window"] | None = None,
        stride: int | None = None, aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
    ) -> list[Look]:
        """Return what the model looks at in each of several inputs. Options are those of `attention`."""
        return self._all(ATTENTION, given, plans.asked_attention(self.description, kept(LookedAt, locals())))

    def look(
        self, result: Result, method: Method | None = None, *, truncate: bool | None = None,
        overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Attention:
        """Return what the model looked at for an answer; the input is not sent again while the service keeps it.

        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `model.look(answer, "libra", target="7").maps[0].values`
        """
        return self._run(plans.look(self.description, result, method, kept(LookOptions, locals())))

    def image(
        self, result: Result, method: Method | None = None, *, width: int | None = None,
        colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] | None = None, opacity: float | None = None,
        ground: Literal["grey", "photo"] | None = None, scale: Literal["clipped", "full"] | None = None,
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> Image.Image:
        """Return what the model looked at as the service draws it.

        - `width`: Pixels, 64 to 4096 (of an image its own, of texts what they need).
        - `colormap`: Colours of the heat ("viridis").
        - `opacity`: Of the heat where it is hottest, 0 to 1 (0.8).
        - `ground`: Under the heat: the picture in grey, or as it was sent ("grey").
        - `scale`: Colours end at the 98th percentile, or at the largest value ("clipped").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `model.image(answer, "rollout", width=600).save("seen.png")`
        """
        return opened(self._run(plans.png(self.description, result, method, kept(PictureOptions, locals()))))

    def png(
        self, result: Result, method: Method | None = None, *, width: int | None = None,
        colormap: Literal["viridis", "magma", "inferno", "turbo", "gray"] | None = None, opacity: float | None = None,
        ground: Literal["grey", "photo"] | None = None, scale: Literal["clipped", "full"] | None = None,
        truncate: bool | None = None, overflow: Literal["window"] | None = None, stride: int | None = None,
        aggregate: Literal["none", "simple", "first", "average", "max"] | None = None,
        ignore: Sequence[str] | None = None, dimensions: int | None = None, prompt_name: str | None = None,
        prompt: str | None = None, priority: Literal["interactive", "batch"] | None = None,
        kind: KindName | None = None, layers: Indices | None = None, heads: Indices | None = None,
        queries: Indices | str | None = None, target: int | str | Json | Sequence[int | str | Json] | None = None,
        threshold: float | None = None, against: Mapping[str, object] | object | None = None,
        sides: Literal["own", "both"] | None = None,
        baseline: Literal["empty", "mask", "padding", "zero"] | None = None, steps: bool | int | None = None,
        fusion: Literal["mean", "max", "min"] | None = None, start_layer: int | None = None,
        discard: float | None = None, sinks: Literal["keep", "out"] | None = None,
        align: Literal["emit", "input"] | None = None, hard: bool | None = None,
        merge: Literal["words", "sentences"] | None = None, diagnostics: bool | None = None,
        evaluate: Sequence[Literal["deletion", "insertion", "compare"]] | None = None, orders: int | None = None,
        pool: int | None = None,
    ) -> bytes:
        """Return what the model looked at as the service draws it, as the bytes of a PNG file.

        - `width`: Pixels, 64 to 4096 (of an image its own, of texts what they need).
        - `colormap`: Colours of the heat ("viridis").
        - `opacity`: Of the heat where it is hottest, 0 to 1 (0.8).
        - `ground`: Under the heat: the picture in grey, or as it was sent ("grey").
        - `scale`: Colours end at the 98th percentile, or at the largest value ("clipped").
        - `truncate`: Cut a text that is too long, which is refused otherwise (False).
        - `overflow`: Read a text that is too long in overlapping windows (refused).
        - `stride`: How many tokens a window shares with the one before (128, or half of a smaller one).
        - `aggregate`: How tokens become entities ("simple").
        - `ignore`: Labels that are no entity (["O"]).
        - `dimensions`: The first numbers of a vector alone (all).
        - `prompt_name`: Which of the model's prompts is put before every text (the model's default).
        - `prompt`: What is put before every text, in place of the model's prompt (the model's).
        - `priority`: "batch" lets others go first ("interactive").
        - `kind`: Which attention: encoder, decoder or cross (all that the model has).
        - `layers`: -1, [0, 1], "8:12" or "all" (the last one for raw and norm; else all, or what the method needs).
        - `heads`: Which heads, "all" for each of them, or how they are fused: "mean", "max", "min" ("mean").
        - `queries`: Rows: "all", "cls", "mean", or their numbers (the class token's, or the mean of all, or of a text
          all).
        - `target`: What relevance, libra and integrated explain: a class, a place, an entity or an object (what was
          answered).
        - `threshold`: Of a detector: the probability from which an object counts as found, and has a row (that of the
          answer).
        - `against`: What it is explained against: another class or token, {"label": "7"}; of embeddings another answer,
          picture or text; of libra and integrated a list of two: what makes it like the first rather than like the
          second; of `rerank` another text (nothing).
        - `sides`: Of embeddings: "both" explains the other input too ("own").
        - `baseline`: Of integrated: where the path begins (the first of these that the model has).
        - `steps`: Of integrated: points of the path (16); of a stream, True for a row with each token (False).
        - `fusion`: Of rollout: how heads are fused ("mean").
        - `start_layer`: Of rollout: the first layer, without those before (0).
        - `discard`: Of rollout: the share of a layer's smallest weights that count as 0 (0.0).
        - `sinks`: Of rollout of images: "out" leaves out heads that look at one patch, whatever they are asked
          ("keep").
        - `align`: The row of a token that was written: where it came out, or where it went in ("emit").
        - `hard`: Also the token that each row of cross looks at most (False).
        - `merge`: "words" adds up the tokens of each word, "sentences" of each sentence (tokens).
        - `diagnostics`: Also figures of every head: entropy, weight on special tokens, distance, sink (False).
        - `evaluate`: Also curves of the score as what the map shows is taken away or put back (none).
        - `orders`: Of these curves: how many random orders are beside them (1).
        - `pool`: Larger maps come as the largest value of each block, at most this number a side (whole).

        Example: `Path("seen.png").write_bytes(model.png(answer, "rollout", width=600))`
        """
        return self._run(plans.png(self.description, result, method, kept(PictureOptions, locals())))
