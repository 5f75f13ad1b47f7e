"""Texts as the inputs of a model: tokens."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from contract.artifact import MANIFEST, Artifact, ArtifactError
from contract.input_rules import TextRule
from contract.manifest import ANSWERED
from service.inputs.chat_inputs import chat_tokens, form_of, pair_tokens, whole_pair
from service.inputs.model_input import Conversation, LanguageTokens, ModelInput, Pair, Text, Token, Windows, strings_of
from service.inputs.tokenization import TextTokenizer, check_characters, in_windows

MODEL_LANGUAGES = LanguageTokens()
"""The languages where a request asks for none."""
SAMPLE_TEXTS = ("a", "1", "A cat.")
MOST_TRIED_TOKENS = 1000


class TextInputs:
    """The inputs of a model that takes texts. The number of tokens differs between texts."""

    modality = "text"
    plural = "texts"
    axis = "source"
    confined = False
    """True if inputs are decoded in confined processes."""
    padded = True
    shortest: Mapping[str, int] = MappingProxyType({})
    """The smallest number along an axis, where that is not 1."""
    """True if the inputs of a batch may be padded to one length."""

    def __init__(self, artifact: Artifact, rule: TextRule) -> None:
        self.rule = rule
        self.tokenizer = TextTokenizer(artifact, rule.tokenizer, rule.max_tokens)
        named = rule.stand_ins if rule.decoder_start is None else {**rule.stand_ins, "start": rule.decoder_start}
        for name, token in named.items():
            if not self.tokenizer.holds(token):
                raise ArtifactError(
                    artifact.path(MANIFEST), f"must name a {name} token that {rule.tokenizer} holds, given {token}"
                )
        self.lengths: Mapping[str, int] = {}
        """Lengths of the axes that are the same for every input."""
        self.longest: Mapping[str, int] = self.lengths_of(rule.max_tokens)
        """The largest number of tokens along each axis whose length varies."""

    def text_input(
        self, text: Text, *, truncate: bool = False, languages: LanguageTokens = MODEL_LANGUAGES
    ) -> ModelInput:
        """Tokenize a text behind the model's prompt, or a chat. Raises as `TextTokenizer.encode` and `form_of` do."""
        if isinstance(text, Conversation):
            tokens = chat_tokens(self.tokenizer, form_of(self.rule, text), text, self.rule.max_tokens)
        elif self.rule.pair and isinstance(text, Pair):
            tokens = pair_tokens(self.tokenizer, self.rule.pair, text, self.rule.max_tokens, truncate=truncate)
        else:
            tokens = self.tokenizer.encode(text, prompt=self.rule.prompt, truncate=truncate)
        if self.rule.filled and self.rule.padding is not None:
            padding = self.rule.padding
            filling = Token(padding, self.tokenizer.text_of(padding), None)
            tokens = [*tokens, *[filling] * (self.rule.max_tokens - len(tokens))]
        if languages.source:
            tokens = [self._in_language(token, *languages.source) for token in tokens]
        return replace(self._input_of(tokens), start=languages.start)

    def windows_of(self, text: Text, windows: Windows) -> list[ModelInput]:
        """Tokenize a text behind the model's prompt, in windows. Raises as `TextTokenizer.windows` does."""
        if self.rule.pair and isinstance(text, Pair):
            check_characters(strings_of(text))
            tokens = whole_pair(self.tokenizer, self.rule.pair, strings_of(text))
            return list(map(self._input_of, in_windows(tokens, windows, self.rule.max_tokens, paired=True)))
        return list(map(self._input_of, self.tokenizer.windows(text, windows, prompt=self.rule.prompt)))

    def _input_of(self, tokens: Sequence[Token]) -> ModelInput:
        arrays = {
            "source": np.array([token.index for token in tokens]),
            "source_visible": np.ones(len(tokens), np.bool_),
            "source_types": np.array([token.type for token in tokens]),
        }
        special = np.array([token.span is None for token in tokens], np.bool_)
        return self.with_decoder(ModelInput(arrays, {self.axis: len(tokens)}, {self.axis: special}, tokens))

    def lengths_of(self, tokens: int) -> dict[str, int]:
        """Return the lengths of the axes of a text of `tokens`: a decoder that is given it too is fed as many."""
        axes = (self.axis,) if self.rule.decoder_start is None else (self.axis, "target", "target_input")
        return dict.fromkeys(axes, tokens)

    def with_decoder(self, item: ModelInput) -> ModelInput:
        """Return a text with what its decoder is fed, if that is given it too: a start token, and all but the last.

        It answers at the last token.
        """
        start = self.rule.decoder_start
        if start is None:
            return item
        source = item.arrays[self.axis]
        return replace(
            item,
            arrays={
                **item.arrays,
                "target": np.array([start, *source[:-1]]),
                ANSWERED: np.array([len(source) - 1]),
            },
            lengths=self.lengths_of(len(source)),
            special={**item.special, "target": np.array([True, *item.special[self.axis][:-1]])},
            fed=(Token(start, self.tokenizer.text_of(start), None), *item.tokens[:-1]),
        )

    def _in_language(self, token: Token, default: int, chosen: int) -> Token:
        """Return the token of the chosen language for that of the default one, if the tokenizer put it there."""
        put = token.index == default and token.span is None
        return replace(token, index=chosen, text=self.tokenizer.text_of(chosen)) if put else token

    def samples(self, form: Callable[[str], Text]) -> Iterator[tuple[Text, Callable[[], ModelInput]]]:
        """Yield texts on which a model is tried, each with what tokenizes it: plain ones, then those of its vocabulary.

        `form` makes the input of a model of each.
        """
        entries = (self.tokenizer.decode([index]) for index in range(MOST_TRIED_TOKENS))
        for plain in (*SAMPLE_TEXTS, *entries):
            text = form(plain)
            yield text, functools.partial(self.text_input, text)

    def description(self) -> dict[str, object]:
        """Return the description of the inputs in `GET /v1/models/{model}`."""
        rule = self.rule
        described: dict[str, object] = {"max_tokens": rule.max_tokens}
        if rule.prompt:
            described["prompt"] = rule.prompt
        if rule.prompts:
            described["prompts"] = rule.prompts
        if rule.default_prompt is not None:
            described["default_prompt"] = rule.default_prompt
        if form := rule.chat:
            described["chat"] = form.model_dump()
        if rule.no_chat:
            described["no_chat"] = rule.no_chat
        return described
