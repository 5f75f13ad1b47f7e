"""Generates with llama.cpp: `convert CHECKPOINT FILE` to Q8_0, or `run FILE` and a JSON line for every run.

Runs in an environment of its own, which has llama-cpp-python, gguf and safetensors.
"""

import json
import sys
import time
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from safetensors.numpy import load_file

BATCH, TOGETHER = 2048, 512
"""Tokens that are given at a time, and those that are computed at a time: the library's defaults."""
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def convert(checkpoint, file):
    """Write the weights of a Llama or a Qwen3 with tied embeddings: matrices as Q8_0, norms as they are."""
    config = json.loads((Path(checkpoint) / "config.json").read_text())
    kind, heads, key_heads = config["model_type"], config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(file, kind)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for name, tensor in load_file(Path(checkpoint) / "model.safetensors").items():
        path, _, _ = name.rpartition(".weight")
        layer = path.removeprefix("model.layers.").partition(".") if path.startswith("model.layers.") else None
        target = f"blk.{layer[0]}.{NAMES[layer[2]]}.weight" if layer else f"{NAMES[path]}.weight"
        if kind == "llama" and ("q_proj" in path or "k_proj" in path):  # whose pairs stand side by side there
            count = tensor.shape[0] // width
            tensor = tensor.reshape(count, 2, width // 2, -1).swapaxes(1, 2).reshape(tensor.shape)
        if tensor.ndim == 1:
            writer.add_tensor(target, tensor.astype(np.float32))
        else:
            eight = gguf.quants.quantize(tensor.astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(target, eight, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    """A model at work, of which each row is a sequence."""

    def __init__(self, file, threads):
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, None)
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(file.encode(), llama_cpp.llama_model_default_params())
        self._vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        self._threads = threads
        self._size, self._context = (0, 0), None

    def generate(self, sources, new):
        """Return the likeliest tokens behind each source: `new` of them."""
        self._room(len(sources), len(sources) * (max(map(len, sources)) + new))
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)
        texts = [[token] for token in self._fill(sources)]
        for step in range(1, new):
            given = [(texts[row][-1], len(source) + step - 1, row, True) for row, source in enumerate(sources)]
            self._decode(given)
            for row, text in enumerate(texts):
                text.append(self._likeliest(row))
        return texts

    def _fill(self, sources):
        """Read sources, as many tokens together as a batch has; return the likeliest token behind each."""
        given = [
            (token, position, row, position + 1 == len(source))
            for row, source in enumerate(sources)
            for position, token in enumerate(source)
        ]
        found = []
        for first in range(0, len(given), BATCH):
            part = given[first : first + BATCH]
            self._decode(part)
            found += [self._likeliest(place) for place, (*_, wanted) in enumerate(part) if wanted]
        return found

    def _likeliest(self, place):
        logits = llama_cpp.llama_get_logits_ith(self._context, place)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())

    def _decode(self, given):
        """Compute tokens: each with its position, its row and whether logits are wanted."""
        batch = self._batch
        batch.n_tokens = len(given)
        for place, (token, position, row, wanted) in enumerate(given):
            batch.token[place], batch.pos[place] = token, position
            batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, row, wanted
        if failed := llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode: {failed}")

    def _room(self, rows, tokens):
        """Make a context that has room for rows of `tokens` in all."""
        if rows == self._size[0] and tokens <= self._size[1]:
            return
        if self._context:
            llama_cpp.llama_free(self._context)
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_seq_max = -(-tokens // 256) * 256, rows
        parameters.n_batch, parameters.n_ubatch = BATCH, TOGETHER
        parameters.n_threads = parameters.n_threads_batch = self._threads
        parameters.kv_unified = False
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._size = rows, tokens


def run(file, threads):
    """Answer each line with the seconds that it took, and the tokens."""
    model = Model(file, int(threads))
    print(json.dumps({"version": llama_cpp.__version__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start, begun = time.perf_counter(), time.process_time()
        tokens = model.generate(asked["sources"], asked["new"])
        taken = {"seconds": time.perf_counter() - start, "processor": time.process_time() - begun}
        print(json.dumps({**taken, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    {"convert": convert, "run": run}[sys.argv[1]](*sys.argv[2:])
