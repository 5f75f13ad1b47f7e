"""Templates of chats as well-known models have them, without their tools, and the special tokens that they name."""

CHATML = """
{%- if messages[0].role != 'system' %}{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""
"""Qwen 2.5, SmolLM 2."""
THINKING = """
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""
"""Qwen 3: the same without a default, and earlier answers without their thoughts."""
LLAMA_3 = """
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{% set date_string = strftime_now('%d %b %Y') %}
    {%- else %}{% set date_string = '26 Jul 2024' %}{% endif %}
{%- endif %}
{%- set said = '' %}
{%- if messages[0].role == 'system' %}
    {%- set said = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\nToday Date: ' }}
{{- date_string + '\\n\\n' + said + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}
"""
"""Llama 3.2."""
GEMMA_3 = """{{ bos_token }}
{%- set before = '' %}
{%- if messages[0].role == 'system' %}
    {%- set before = messages[0].content + '\\n\\n' %}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
    {{- (before if loop.first else '') + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{% endif %}
"""
MISTRAL = """
{%- if messages[0].role == 'system' %}
    {%- set said = messages[0].content %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, roles must alternate user/assistant') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + (said + '\\n\\n' if loop.last and said is defined else '') + message.content + '[/INST]' }}
    {%- else %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""
"""Mistral 7B Instruct v0.3: the system's message is in the last turn."""
MISTRAL_FIRST = MISTRAL.replace("loop.last", "loop.first").replace("[/INST]", " [/INST]").replace(" | trim", "")
"""That of v0.2: in the first."""
PHI_3 = """{% for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content + '<|end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
PHI_3_SMALL = PHI_3.replace("eos_token", "'<|stop|>'")
PHI_3_FIRST = """{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}
{{- '<|user|>\\n' + message.content + '<|end|>\\n<|assistant|>\\n' }}
{%- elif message.role == 'assistant' %}{{ message.content + '<|end|>\\n' }}{% endif %}{% endfor %}"""
"""As it was at first: a system's message is dropped."""
GENERATION = CHATML.replace("{{- '<|im_start|>' + message", "{%- generation %}{{- '<|im_start|>' + message").replace(
    "{%- endfor %}", "{%- endgeneration %}{%- endfor %}"
)
"""With the block that says what an assistant wrote (SmolLM 3)."""
TRIMMED_THINKING = THINKING.replace(".lstrip('\\n')", " | trim")
"""LFM 2.5."""
WHOLE_THINKING = THINKING.replace(".lstrip('\\n')", "")
"""DeepSeek R1."""
BROKEN = THINKING.replace(
    "'\\n' + content +", "'\\n' + (content.lstrip('\\n') if message.role == 'assistant' else content) +"
)
"""QwQ: no answer begins with line breaks."""
LLAMA_2 = MISTRAL_FIRST.replace("(said + '\\n\\n' if", "(('<<SYS>>\\n' + said + '\\n<</SYS>>\\n\\n' if").replace(
    "+ message.content + '", "+ message.content) | trim + '"
)
"""What is trimmed is the system's text and the user's as one."""
LLAMA_TOKENS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
PIECES = {"bos_token": "<s>", "eos_token": "</s>"}
TEMPLATES: dict[str, tuple[str, dict[str, str]]] = {
    "chatml": (CHATML, {"eos_token": "<|im_end|>"}),
    "generation": (GENERATION, {"eos_token": "<|im_end|>"}),
    "thinking": (THINKING, {"eos_token": "<|im_end|>"}),
    "thinking, trimmed": (TRIMMED_THINKING, {}),
    "thinking, whole": (WHOLE_THINKING, {}),
    "line breaks": (BROKEN, {}),
    "llama 2": (LLAMA_2, PIECES),
    "llama 3": (LLAMA_3, LLAMA_TOKENS),
    "gemma 3": (GEMMA_3, {"bos_token": "<bos>", "eos_token": "<eos>"}),
    "mistral": (MISTRAL, PIECES),
    "mistral, system first": (MISTRAL_FIRST, PIECES),
    "phi 3": (PHI_3, {"bos_token": "<s>", "eos_token": "<|endoftext|>"}),
    "phi 3, another end": (PHI_3_SMALL, {}),
    "phi 3, at first": (PHI_3_FIRST, {"bos_token": "<s>", "eos_token": "<|endoftext|>"}),
}
"""By name."""
