"""The form of chats, of a decoder whose checkpoint has a template of them."""

import dataclasses
from collections.abc import Callable

from contract.input_rules import TextRule
from export.checkpoints.reading.chat_template import read_chat
from export.checkpoints.reading.checkpoint import Checkpoint
from export.plan import Source


def with_chat(source: Source, checkpoint: Checkpoint, say: Callable[[str], None]) -> Source:
    """Return a source that takes messages, if its checkpoint has a template whose form is found; say so, or why not.

    Nothing is said of other tasks, and of a checkpoint without a template.
    """
    if source.task != "text-generation":
        return source
    form, said = read_chat(checkpoint)
    if not said:
        return source
    say(f"  chat      {'' if form else 'LEFT OUT: '}{said}")
    told = {"chat": form} if form else {"no_chat": said}
    inputs = tuple(one.model_copy(update=told) if isinstance(one, TextRule) else one for one in source.inputs)
    return dataclasses.replace(source, inputs=inputs)
