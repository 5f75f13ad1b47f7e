"""Each module has its tests in a file of its name, in the folder that mirrors the module's folder."""

import ast

import pytest

from tests.conftest import ROOT

CHECKED_PACKAGES = ("client", "contract", "export", "model", "service", "train")

FAMILIES = "export/checkpoints/families"
"""The families are tested by their cases, in the one file that mirrors this folder."""

TESTED_ELSEWHERE = {
    "service/api/reading/messages.py": "tests/end_to_end/test_chat_over_http.py",
    "service/answering/vectors.py": "tests/end_to_end/test_pairs_over_http.py",
    "service/repository/models/pairs.py": "tests/end_to_end/test_pairs_over_http.py",
    "service/api/tasks/contrast.py": "tests/end_to_end/test_pairs_over_http.py",
    "service/api/tasks/contrast_similarity.py": "tests/end_to_end/test_pairs_over_http.py",
    "client/regard/reading.py": "tests/client/regard/test_attention.py",
    "client/regard/model.py": "tests/client/regard/test_service.py",
    "client/regard/async_model.py": "tests/client/regard/test_asynchronous.py",
    "client/regard/asking.py": "tests/client/regard/test_service.py",
    "client/regard/awaiting.py": "tests/client/regard/test_asynchronous.py",
    "client/regard/plans.py": "tests/client/regard/test_service.py",
    "client/regard/failures.py": "tests/client/regard/test_transport.py",
    "client/regard/sources.py": "tests/client/regard/test_questions.py",
    "client/regard/fetching.py": "tests/client/regard/test_inputs.py",
    "client/regard/looking.py": "tests/client/regard/test_results.py",
    "client/regard/options.py": "tests/client/signatures/test_written.py",
    "client/signatures/__main__.py": "tests/client/signatures/test_written.py",
    "client/signatures/rows.py": "tests/client/signatures/test_written.py",
    "export/tasks/image_to_text.py": "tests/end_to_end/test_image_to_text_over_http.py",
    "export/traced/image_to_text.py": "tests/end_to_end/test_image_to_text_over_http.py",
    "export/checkpoints/building/text_decoder.py": "tests/export/checkpoints/families/test_vision_encoder_decoder.py",
    "export/networks.py": "tests/end_to_end/test_graphs_over_http.py",
    "export/tasks/graphs.py": "tests/end_to_end/test_graphs_over_http.py",
    "export/traced/graphs.py": "tests/end_to_end/test_graphs_over_http.py",
    "service/explanations/answer_drawing.py": "tests/service/explanations/test_answer.py",
    "service/explanations/option_checks.py": "tests/service/explanations/test_query.py",
    "service/repository/explaining/saliency.py": "tests/end_to_end/test_saliency_over_http.py",
    "service/repository/explaining/states.py": "tests/end_to_end/test_states_over_http.py",
    "client/regard/__init__.py": "tests/client/regard/test_errors.py",
    "client/regard/__main__.py": "tests/client/regard/test_command.py",
    "client/regard/tasks/__init__.py": "tests/client/regard/test_service.py",
    "client/regard/tasks/embedding.py": "tests/client/regard/test_results.py",
    "client/regard/tasks/fill_mask.py": "tests/client/regard/test_results.py",
    "client/regard/tasks/ranking.py": "tests/client/regard/test_comparing.py",
    "client/regard/tasks/tagging.py": "tests/client/regard/test_results.py",
    "client/regard/tasks/similarity.py": "tests/client/regard/test_comparing.py",
    "client/regard/tasks/task.py": "tests/client/regard/test_calls.py",
    "contract/chat.py": "tests/export/checkpoints/reading/test_chat_template.py",
    "contract/detection.py": "tests/contract/test_manifest.py",
    "contract/generation.py": "tests/contract/test_manifest.py",
    "contract/part.py": "tests/contract/test_manifest.py",
    "export/graphs/editing/tensors.py": "tests/export/graphs/lowering/test_gpu_rewrites.py",
    "export/__init__.py": "tests/end_to_end/test_nothing_leaves_the_machine.py",
    "export/__main__.py": "tests/export/test_install_missing.py",
    "export/checkpoints/families/__init__.py": "tests/export/checkpoints/test_families.py",
    "export/checkpoints/building/family.py": "tests/export/checkpoints/reading/test_checkpoint.py",
    "export/checkpoints/reading/chat_conversations.py": "tests/export/checkpoints/reading/test_chat_template.py",
    "export/checkpoints/reading/chat_rendering.py": "tests/export/checkpoints/reading/test_chat_template.py",
    "export/checkpoints/reading/pair_template.py": "tests/export/checkpoints/reading/test_ranking.py",
    "export/checkpoints/building/multilingual_family.py": "tests/end_to_end/test_families_over_http.py",
    "export/checkpoints/reading/tokenizers/sentencepiece_model.py": (
        "tests/export/checkpoints/reading/tokenizers/test_marian.py"
    ),
    "export/checkpoints/reading/architectures.py": "tests/export/checkpoints/test_layouts.py",
    "export/checkpoints/reading/generation_config.py": "tests/export/checkpoints/test_layouts.py",
    "export/checkpoints/building/decoder_family.py": "tests/end_to_end/test_families_over_http.py",
    "export/checkpoints/building/image_family.py": "tests/end_to_end/test_families_over_http.py",
    "export/checkpoints/building/sequence_family.py": "tests/end_to_end/test_families_over_http.py",
    "export/checkpoints/building/tensor_names.py": "tests/export/checkpoints/reading/test_checkpoint.py",
    "export/checkpoints/building/text_family.py": "tests/end_to_end/test_families_over_http.py",
    "export/checks/reference.py": "tests/end_to_end/test_fidelity.py",
    "export/checks/inside_reference.py": "tests/export/graphs/maps/test_inside.py",
    "export/checks/windowed_reference.py": "tests/end_to_end/test_windows_over_http.py",
    "export/checks/verify_generation.py": "tests/export/checks/test_verify.py",
    "export/checks/verify_saliency.py": "tests/export/graphs/maps/test_saliency.py",
    "export/errors.py": "tests/export/test_command.py",
    "export/trained.py": "tests/export/test_bundled.py",
    "export/graphs/maps/attention_maps.py": "tests/end_to_end/test_fidelity.py",
    "export/graphs/maps/attention_graph.py": "tests/end_to_end/test_fidelity.py",
    "export/graphs/editing/base_graph.py": "tests/end_to_end/test_fidelity.py",
    "export/graphs/editing/builder.py": "tests/export/graphs/gradients/test_gradient.py",
    "export/graphs/lowering/float16.py": "tests/end_to_end/test_precisions_and_opsets.py",
    "export/graphs/gradients/gradient_rules.py": "tests/export/graphs/gradients/test_gradient.py",
    "export/graphs/gradients/index_rules.py": "tests/export/graphs/gradients/test_gradient.py",
    "export/graphs/tracing/gru.py": "tests/end_to_end/test_captions_over_http.py",
    "export/graphs/gradients/integrated.py": "tests/end_to_end/test_fidelity_of_scores.py",
    "export/graphs/gradients/libra.py": "tests/end_to_end/test_fidelity_of_scores.py",
    "export/graphs/gradients/score.py": "tests/end_to_end/test_fidelity_of_scores.py",
    "export/graphs/gradients/tape.py": "tests/export/graphs/gradients/test_gradient.py",
    "export/graphs/maps/windowed_maps.py": "tests/end_to_end/test_windows_over_http.py",
    "export/graphs/maps/windows.py": "tests/end_to_end/test_windows_over_http.py",
    "export/graphs/lowering/top_k.py": "tests/end_to_end/test_http_interface.py",
    "export/plan.py": "tests/export/test_pipeline.py",
    "export/tasks/alignment.py": "tests/end_to_end/test_variants.py",
    "export/traced/sound.py": "tests/end_to_end/test_fidelity.py",
    "export/checkpoints/building/speech_family.py": "tests/export/checkpoints/test_sound_layouts.py",
    "export/tasks/detection.py": "tests/end_to_end/test_detection_over_http.py",
    "export/tasks/image.py": "tests/export/test_pipeline.py",
    "export/tasks/ports.py": "tests/export/test_pipeline.py",
    "export/tasks/text.py": "tests/end_to_end/test_families_over_http.py",
    "export/tasks/windows.py": "tests/end_to_end/test_windows_over_http.py",
    "export/traced/base.py": "tests/end_to_end/test_fidelity.py",
    "export/traced/detection.py": "tests/end_to_end/test_fidelity.py",
    "export/traced/generation.py": "tests/export/tasks/test_generation.py",
    "export/traced/images.py": "tests/end_to_end/test_fidelity.py",
    "export/traced/texts.py": "tests/end_to_end/test_fidelity.py",
    "export/traced/windows.py": "tests/end_to_end/test_fidelity.py",
    "service/__init__.py": "tests/test_architecture.py",
    "service/__main__.py": "tests/service/process/test_start.py",
    "service/answering/inside.py": "tests/end_to_end/test_inside_over_http.py",
    "service/answering/modalities.py": "tests/end_to_end/test_http_interface.py",
    "service/answering/predictions.py": "tests/end_to_end/test_http_interface.py",
    "service/api/open_inference/descriptions.py": "tests/end_to_end/test_open_inference.py",
    "service/api/open_inference/openapi_schema.py": "tests/end_to_end/test_open_inference.py",
    "service/api/open_inference/outputs.py": "tests/end_to_end/test_open_inference.py",
    "service/api/open_inference/routes.py": "tests/end_to_end/test_open_inference.py",
    "service/api/protocols.py": "tests/service/api/test_fast_path.py",
    "service/api/openai/routes.py": "tests/service/api/test_openai.py",
    "service/api/openai/documents.py": "tests/service/api/test_openai.py",
    "service/api/openai/errors.py": "tests/service/api/test_openai.py",
    "service/api/openai/fields.py": "tests/service/api/test_openai.py",
    "service/api/openai/speech_documents.py": "tests/end_to_end/test_speech_protocols.py",
    "service/api/openai/speech_fields.py": "tests/end_to_end/test_speech_protocols.py",
    "service/api/openai/subtitles.py": "tests/service/api/test_openai_speech.py",
    "service/api/openapi/tasks/transcription.py": "tests/end_to_end/test_speech_protocols.py",
    "service/api/pipelines/sounds.py": "tests/service/api/hugging_face/test_sounds.py",
    "service/api/openai/openapi_schema.py": "tests/service/api/test_openai.py",
    "service/api/openapi/answers.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/attention.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/fed.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/models.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/operations.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/requests.py": "tests/service/api/openapi/test_document.py",
    "service/api/pipelines/tags.py": "tests/service/api/tasks/test_tags.py",
    "service/api/openapi/tasks/tags.py": "tests/end_to_end/test_families_over_http.py",
    "service/options/tags.py": "tests/service/api/tasks/test_tags.py",
    "client/regard/tasks/sparse_embedding.py": "tests/client/regard/test_results.py",
    "service/api/openapi/tasks/words.py": "tests/service/api/openapi/test_document.py",
    "service/repository/models/of_words.py": "tests/service/api/tasks/test_words.py",
    "service/repository/models/sparse_embedder.py": "tests/service/api/tasks/test_words.py",
    "service/repository/models/tagger.py": "tests/service/api/tasks/test_tags.py",
    "service/api/pipelines/masks.py": "tests/service/api/hugging_face/test_pipelines.py",
    "service/api/pipelines/parameters.py": "tests/service/api/hugging_face/test_pipelines.py",
    "service/api/hugging_face/openapi_schema.py": "tests/service/api/hugging_face/test_pipelines.py",
    "service/api/pipelines/texts.py": "tests/service/api/hugging_face/test_pipelines.py",
    "service/api/responses.py": "tests/end_to_end/test_http_interface.py",
    "service/api/native/routes.py": "tests/end_to_end/test_http_interface.py",
    "service/errors.py": "tests/end_to_end/test_bad_input.py",
    "service/explanations/colormaps.py": "tests/service/explanations/test_drawing.py",
    "service/explanations/comparison.py": "tests/end_to_end/test_evaluations_over_http.py",
    "service/explanations/found_object.py": "tests/end_to_end/test_detection_over_http.py",
    "service/explanations/lettering.py": "tests/service/explanations/test_drawing.py",
    "service/explanations/selection.py": "tests/service/explanations/test_query.py",
    "service/explanations/token_merging.py": "tests/service/explanations/test_sentences.py",
    "service/repository/explaining/long_texts.py": "tests/end_to_end/test_chat_over_http.py",
    "service/http/lingering_protocol.py": "tests/service/http/test_bounded_protocol.py",
    "service/http/exchange.py": "tests/service/http/test_body_limits.py",
    "service/http/problems.py": "tests/end_to_end/test_bad_input.py",
    "service/inputs/artifact_inputs.py": "tests/end_to_end/test_detection_over_http.py",
    "service/inputs/encoded_files.py": "tests/service/api/reading/test_request_parsing.py",
    "service/answering/transcriptions.py": "tests/end_to_end/test_speech_over_http.py",
    "service/inputs/decoding.py": "tests/service/inputs/sandbox/test_messages.py",
    "service/inputs/sound_inputs.py": "tests/end_to_end/test_speech_over_http.py",
    "export/tasks/sound_encoder.py": "tests/export/checkpoints/families/test_definitions.py",
    "service/explanations/spectrogram.py": "tests/end_to_end/test_speech_over_http.py",
    "service/repository/models/recognizer.py": "tests/end_to_end/test_speech_over_http.py",
    "service/options/transcription.py": "tests/end_to_end/test_speech_over_http.py",
    "service/repository/models/transcriber.py": "tests/end_to_end/test_speech_over_http.py",
    "service/repository/models/transcript.py": "tests/end_to_end/test_speech_over_http.py",
    "contract/example.py": "tests/contract/test_manifest.py",
    "service/inputs/model_input.py": "tests/end_to_end/test_http_interface.py",
    "service/keys.py": "tests/service/http/test_api_keys.py",
    "service/repository/models/detector.py": "tests/end_to_end/test_detection_over_http.py",
    "service/repository/models/generator.py": "tests/service/generation/test_decode_loop.py",
    "service/repository/models/predictor.py": "tests/end_to_end/test_http_interface.py",
    "service/repository/models/tasks.py": "tests/service/api/page/test_static.py",
    "service/runtime/runtime_errors.py": "tests/service/runtime/test_session.py",
    "service/runtime/threads.py": "tests/service/runtime/test_session.py",
    "service/state.py": "tests/service/test_app.py",
    "model/parts/convolutions.py": "tests/model/architectures/test_convolutional.py",
    "model/methods/windows.py": "tests/model/parts/test_windows.py",
    "export/checkpoints/reading/config.py": "tests/export/checkpoints/reading/test_checkpoint.py",
    "service/options/attention.py": "tests/end_to_end/test_bad_input.py",
    "service/options/inside.py": "tests/service/explanations/test_inside.py",
    "service/options/generation.py": "tests/service/options/test_base.py",
    "service/options/predictions.py": "tests/end_to_end/test_bad_input.py",
    "service/options/readers.py": "tests/end_to_end/test_bad_input.py",
    "contract/input_rules.py": "tests/contract/test_manifest.py",
    "service/api/reading/sorts.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/answers.py": "tests/end_to_end/test_http_interface.py",
    "service/api/reading/call.py": "tests/end_to_end/test_http_interface.py",
    "service/answering/embedding_options.py": "tests/service/api/tasks/test_vectors.py",
    "service/api/tasks/explained.py": "tests/service/api/tasks/test_ranking.py",
    "service/explanations/contrast.py": "tests/service/api/tasks/test_ranking.py",
    "service/api/rerankers/fields.py": "tests/service/api/rerankers/test_routes.py",
    "service/api/rerankers/openapi_schema.py": "tests/service/api/rerankers/test_routes.py",
    "service/api/tasks/tensors.py": "tests/end_to_end/test_open_inference.py",
    "service/api/tasks/task.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/table.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/labels.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/masks.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/objects.py": "tests/end_to_end/test_protocols_agree.py",
    "service/api/tasks/written.py": "tests/end_to_end/test_protocols_agree.py",
    "service/options/masks.py": "tests/end_to_end/test_bad_input.py",
    "service/repository/models/mask_filler.py": "tests/end_to_end/test_http_interface.py",
    "service/api/pipelines/asked.py": "tests/service/api/hugging_face/test_pipelines.py",
    "service/api/openapi/predictions.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/__init__.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/labels.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/masks.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/objects.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/pipelines/answers.py": "tests/service/api/tasks/test_spans.py",
    "service/options/answers.py": "tests/service/api/tasks/test_spans.py",
    "service/repository/models/extractor.py": "tests/service/api/tasks/test_spans.py",
    "service/api/openapi/tasks/spans.py": "tests/end_to_end/test_families_over_http.py",
    "service/api/openapi/tasks/ranking.py": "tests/end_to_end/test_families_over_http.py",
    "service/api/openapi/tasks/similarity.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/vectors.py": "tests/end_to_end/test_documented_answers.py",
    "service/api/openapi/tasks/written.py": "tests/end_to_end/test_documented_answers.py",
    "service/repository/models/uses.py": "tests/service/repository/test_registry.py",
    "service/repository/loops.py": "tests/service/repository/test_registry.py",
    "export/graphs/maps/figures.py": "tests/end_to_end/test_fidelity.py",
    "export/graphs/maps/norms.py": "tests/end_to_end/test_fidelity.py",
    "export/checkpoints/reading/tokenizers/classes.py": (
        "tests/export/checkpoints/reading/tokenizers/test_vocabulary_files.py"
    ),
    "service/process/serving.py": "tests/service/process/test_start.py",
    "service/store/__init__.py": "tests/service/store/test_open_store.py",
    "service/telemetry/__init__.py": "tests/service/telemetry/test_tracing.py",
    "train/__main__.py": "tests/train/test_main.py",
    "train/data/written_dates/combinators.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/dressings.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/examples.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/forms.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/parts.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/slips.py": "tests/train/data/test_written_dates.py",
    "train/data/written_dates/spelling.py": "tests/train/data/test_written_dates.py",
}
"""The test file of each module that has none of its own."""


def is_empty(module):
    """True if the module has no code, but for a docstring."""
    body = ast.parse(module.read_text()).body
    return not [statement for statement in body if not isinstance(statement, ast.Expr)]


def mirrored(module):
    """Return where the tests of a module are if they are in a file of its name."""
    return ROOT / "tests" / module.relative_to(ROOT).with_name(f"test_{module.name}")


def imported(file):
    """Return the full names of all that a file imports: modules, and what it takes of them."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    return found


MODULES = [
    module
    for package in CHECKED_PACKAGES
    for module in sorted((ROOT / package).rglob("*.py"))
    if not (module.name in ("__init__.py", "__main__.py") and is_empty(module))
    and (module.name == "__init__.py" or module.parent != ROOT / FAMILIES)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(ROOT)))
def test_a_module_has_a_test_file_of_its_name_or_a_line_that_says_where_it_is_tested(module):
    name = str(module.relative_to(ROOT))
    has_its_own = mirrored(module).exists()
    assert has_its_own or name in TESTED_ELSEWHERE, f"{mirrored(module).relative_to(ROOT)} does not exist"
    assert not (has_its_own and name in TESTED_ELSEWHERE), "TESTED_ELSEWHERE must not list a module with its own tests"


def test_modules_and_tests_that_are_listed_exist():
    for module, tests in TESTED_ELSEWHERE.items():
        assert (ROOT / module).is_file(), module
        assert (ROOT / tests).is_file(), tests


def test_test_files_in_a_mirrored_folder_have_a_room_to_mirror():
    for package in CHECKED_PACKAGES:
        for folder in {file.parent for file in (ROOT / "tests" / package).rglob("test_*.py")}:
            assert (ROOT / folder.relative_to(ROOT / "tests")).is_dir(), folder


def test_no_test_module_imports_another_one():
    for file in (ROOT / "tests").rglob("*.py"):
        assert not [name for name in imported(file) if any(part.startswith("test_") for part in name.split("."))], file


def test_benchmarks_import_nothing_of_tests():
    files = list((ROOT / "benchmarks").rglob("*.py"))
    assert files
    for file in files:
        assert not [name for name in imported(file) if name.partition(".")[0] == "tests"], file
