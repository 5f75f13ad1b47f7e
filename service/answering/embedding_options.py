"""What requests ask of embeddings: the prompt before texts, and how many numbers vectors have."""

from dataclasses import replace
from typing import TypeVar

from contract.input_rules import TextRule
from service.answering.call import Call
from service.errors import TooLarge, Unacceptable
from service.inputs.model_input import Prompted
from service.options.base import RequestOptions
from service.options.predictions import CutOptions, PromptedOptions
from service.repository.models.predictor import Predictor

KEPT = "kept"
"""The input of graphs that explain a cosine by which numbers of vectors are compared; older artifacts have none."""
C = TypeVar("C", bound=Call[Predictor])


def with_options(call: C, options: RequestOptions) -> C:
    """Return a call whose texts stand behind the prompt that options name, once all of its options can be served.

    Raises Unacceptable for a prompt or dimensions that the model has not, and TooLarge for a prompt that would be read
    too often: once with every text.
    """
    if isinstance(options, CutOptions) and options.dimensions is not None:
        _check_dimensions(call, options.dimensions)
    prompt = _prompt_of(call.served, options) if isinstance(options, PromptedOptions) else None
    if prompt is None:
        return call
    if (length := len(prompt) * len(call.inputs)) > (limit := call.state.settings.max_text_bytes):
        raise TooLarge(f"prompt: at most {limit} characters, counted once for each text, given {length}")
    return replace(call, inputs=[Prompted(one, prompt) if isinstance(one, str) else one for one in call.inputs])


def _check_dimensions(call: Call[Predictor], dimensions: int) -> None:
    served, query = call.served, call.query
    if dimensions > (width := served.output_size):
        raise Unacceptable(f"dimensions: must be from 1 to {width}, given {dimensions}")
    graph = served.manifest.graphs[query.method] if query and query.by_gradient else None  # type: ignore[index] # its own
    if graph and not any(port.name == KEPT for port in graph.inputs):
        raise Unacceptable("dimensions: are not cut by the graphs of this artifact that explain; export it again")


def _prompt_of(served: Predictor, options: PromptedOptions) -> str | None:
    """Return the prompt that options name; None where they name none."""
    if options.prompt is None and options.prompt_name is None:
        return None
    rule = served.inputs.rule
    prompts = rule.prompts if isinstance(rule, TextRule) else None
    name = "prompt" if options.prompt is not None else "prompt_name"
    if options.prompt is not None and options.prompt_name is not None:
        raise Unacceptable("prompt: must be given by itself or by prompt_name, given both")
    if prompts is None:
        raise Unacceptable(f"{name}: this model takes none")
    if options.prompt is not None:
        return options.prompt
    if options.prompt_name not in prompts:
        has = f"must be one of {', '.join(sorted(prompts))}" if prompts else "this model has none by name"
        raise Unacceptable(f"prompt_name: {has}, given another")
    return prompts[str(options.prompt_name)]
