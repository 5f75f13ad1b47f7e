"""What LlamaIndex's rerankers ask: those of Cohere, Jina and Text Embeddings Inference."""

from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.cohere_rerank import CohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

QUERY, DATES = "the twenty-third of march 2021", ["2021-03-25", "2021-03-23", "1921-03-23"]


def check(ranker):
    """Check the two best of three nodes that a reranker answers."""
    nodes = [NodeWithScore(node=TextNode(text=date), score=0.5) for date in DATES]
    found = ranker.postprocess_nodes(nodes, query_str=QUERY)
    assert found[0].node.text == DATES[1]
    assert len(found) == 2
    assert found[0].score > 0.9 > 0.5 > found[1].score


def of_cohere(service):
    """CohereRerank(base_url=..., model=..., top_n=2).postprocess_nodes([...], query_str=...)."""
    check(CohereRerank(top_n=2, model=service.ranker, api_key="none", base_url=service.url))


def of_jina(service):
    """JinaRerank(base_url=".../v1", model=..., top_n=2).postprocess_nodes([...], query_str=...)."""
    check(JinaRerank(top_n=2, model=service.ranker, api_key="none", base_url=f"{service.url}/v1"))


def of_tei(service):
    """TextEmbeddingInference(base_url=".../tei", top_n=2).postprocess_nodes([...], query_str=...)."""
    check(TextEmbeddingInference(top_n=2, base_url=f"{service.url}/v1/models/{service.ranker}/tei"))
