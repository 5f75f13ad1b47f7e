"""What LangChain's ChatOpenAI asks: answers, streams, batches, log-probabilities, stops, and what is refused."""

import asyncio

import numpy as np
import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

MESSAGES = [SystemMessage("be old"), HumanMessage("good dog"), AIMessage("ran"), HumanMessage("bad")]
MOST = 6


def model(service, **options):
    """Return the client of the model that takes chats."""
    return ChatOpenAI(
        model=service.chat, base_url=f"{service.url}/v1", api_key="none", max_retries=0, **{"temperature": 0, **options}
    )


def invoke(service):
    """ChatOpenAI(base_url=..., model=..., temperature=0).invoke([...]): the answer, its usage, and why it ended."""
    found = model(service).invoke(MESSAGES)
    assert found.content
    assert found.response_metadata["finish_reason"] in ("stop", "length")
    usage = found.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    more = model(service, max_tokens=MOST).invoke([*MESSAGES, found, HumanMessage("cat")])
    assert more.usage_metadata["input_tokens"] > usage["input_tokens"]
    assert more.usage_metadata["output_tokens"] <= MOST


def of_a_template(service):
    """(ChatPromptTemplate | ChatOpenAI(...) | StrOutputParser()).invoke({...})."""
    prompt = ChatPromptTemplate([("system", "be old"), ("human", "{animal} sat on")])
    text = (prompt | model(service) | StrOutputParser()).invoke({"animal": "the cat"})
    assert text == model(service).invoke([("system", "be old"), ("human", "the cat sat on")]).content


def stream(service):
    """ChatOpenAI(...).stream([...]): chunks that add up to the answer, with its usage."""
    whole = model(service).invoke(MESSAGES)
    chunks = list(model(service, stream_usage=True).stream(MESSAGES))
    assert len(chunks) > 2
    added = chunks[0]
    for chunk in chunks[1:]:
        added += chunk
    assert added.content == whole.content
    assert added.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]
    assert added.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]


def batch(service):
    """ChatOpenAI(...).batch([[...], ...]): answers in their order."""
    asked = [[HumanMessage(text)] for text in ("the cat sat on", "good dog", "a new sky", "bad")]
    found = [one.content for one in model(service).batch(asked)]
    assert found == [model(service).invoke(one).content for one in asked]
    assert len(set(found)) > 1


def asynchronous(service):
    """await ChatOpenAI(...).ainvoke([...]), abatch and astream."""

    async def asked():
        client = model(service)
        whole = await client.ainvoke(MESSAGES)
        assert [one.content for one in await client.abatch([MESSAGES] * 3)] == [whole.content] * 3
        assert "".join([chunk.content async for chunk in client.astream(MESSAGES)]) == whole.content

    asyncio.run(asked())


def until_a_stop(service):
    """ChatOpenAI(...).invoke([...], stop=["..."]), and as a stream: the text ends before it."""
    text = model(service).invoke(MESSAGES).content
    stop = text[2:4]
    wanted = text[: text.index(stop)]
    assert model(service).invoke(MESSAGES, stop=[stop]).content == wanted
    assert model(service, stop=[stop, "another"]).invoke(MESSAGES).content == wanted
    assert "".join(chunk.content for chunk in model(service).stream(MESSAGES, stop=[stop])) == wanted


def sampled(service):
    """ChatOpenAI(temperature=1.2, top_p=0.95, seed=3).invoke([...]): the same twice."""
    client = model(service, temperature=1.2, top_p=0.95, seed=3)
    assert client.invoke(MESSAGES).content == client.invoke(MESSAGES).content
    assert len({model(service, temperature=1.5, seed=seed).invoke(MESSAGES).content for seed in range(4)}) > 1


def with_log_probabilities(service):
    """ChatOpenAI(logprobs=True, top_logprobs=2).invoke([...]): of the tokens that were chosen."""
    found = model(service, logprobs=True, top_logprobs=2).invoke(MESSAGES)
    content = found.response_metadata["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == found.content
    assert all(len(one["top_logprobs"]) >= 2 for one in content)


def with_attention(service):
    """ChatOpenAI(extra_body={"attention": {}}) of OpenAI's own answer: rows by message."""
    client = model(service, extra_body={"attention": {}}, include_response_headers=False)
    answer = client.root_client.chat.completions.create(
        model=service.chat, messages=[{"role": "user", "content": "good dog"}], extra_body=client.extra_body
    )
    shares = np.array(answer.choices[0].attention["maps"][0]["by_message"])
    assert np.allclose(shares.sum(-1), 1, atol=0.01)
    assert client.invoke(MESSAGES).content == model(service).invoke(MESSAGES).content


def what_is_not_served(service):
    """ChatOpenAI(...).bind_tools([...]), a text beyond the context, an empty turn: openai's errors, which name it."""

    def look(where: str) -> str:
        """Look somewhere."""
        return where

    client = model(service)
    cases = [
        (client.bind_tools([look]), MESSAGES, "tools"),
        (client, [HumanMessage("dog " * 400)], "messages"),
        (client, [HumanMessage("")], "messages"),
        (model(service, max_completion_tokens=10**6), MESSAGES, "max_completion_tokens"),
        (model(service, stop=["a", "b", "c", "d", "e"]), MESSAGES, "stop"),
    ]
    for asked, messages, name in cases:
        try:
            asked.invoke(messages)
        except openai.APIStatusError as error:
            assert (error.code == "context_length_exceeded") == (len(messages[-1].content) > 1000), error
            assert error.status_code in (400, 413)
            assert error.body["param"] == name, error
            assert error.body["message"].startswith(name), error
        else:
            raise AssertionError(f"{name}: it was answered")
