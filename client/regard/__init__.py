"""The Python client of regard: predictions of Transformers and Vision Transformers, and what they looked at.

import regard

service = regard.connect("http://127.0.0.1:8000")
seen = service["digits"].classify("seven.png")
seen.labels[0].label, seen.heat("relevance")
"""

from regard.asking import Stream
from regard.async_model import AsyncModel
from regard.asynchronous import AsyncService
from regard.attention import Attention
from regard.awaiting import AsyncStream
from regard.child import Started, export, start
from regard.data_sets import Difference, Summary, difference, summarise
from regard.errors import (
    BadInput,
    Busy,
    CommandFailed,
    Incompatible,
    InputRefused,
    KeyRefused,
    NoService,
    NotFound,
    NotInstalled,
    NotReady,
    Problem,
    Refused,
    RegardError,
    ServiceFailed,
    StreamBroken,
    TimedOut,
    TooSlow,
)
from regard.failures import VERSION
from regard.figures import Figure
from regard.heat import Box
from regard.maps import Array, Curve, Diagnosis, Evaluation, Map, SentGraph, Token
from regard.model import Model
from regard.models import Description, Models
from regard.objects import Detected
from regard.options import AskedAttention, AttentionOptions
from regard.overlays import side_by_side
from regard.results import Look, Result
from regard.saving import save_many
from regard.service import Service, connect
from regard.table import Table
from regard.tasks.answering import Answer, Answered
from regard.tasks.classification import Classification, Label
from regard.tasks.detection import Detection
from regard.tasks.embedding import Embedding
from regard.tasks.fill_mask import Candidate, Filled
from regard.tasks.generation import GeneratedToken, Generation, OtherText, StreamedToken
from regard.tasks.ranking import Ranked, RankedAgainst
from regard.tasks.similarity import Similarity
from regard.tasks.sparse_embedding import SparseEmbedding, Word
from regard.tasks.tagging import Entity, Tagged
from regard.tasks.transcription import Segment, SpokenWord, Transcription

__version__ = VERSION

__all__ = [
    "Answer", "Answered", "Array", "AskedAttention", "AsyncModel", "AsyncService", "AsyncStream", "Attention",
    "AttentionOptions", "BadInput", "Box", "Busy", "Candidate", "Classification", "CommandFailed", "Curve",
    "Description", "Detected", "Detection", "Diagnosis", "Difference", "Embedding", "Entity", "Evaluation", "Figure",
    "Filled", "GeneratedToken", "Generation", "Incompatible", "InputRefused", "KeyRefused", "Label", "Look", "Map",
    "Model", "Models", "NoService", "NotFound", "NotInstalled", "NotReady", "OtherText", "Problem", "Ranked",
    "RankedAgainst", "Refused", "RegardError", "Result", "Segment", "SentGraph", "Service", "ServiceFailed",
    "Similarity", "SparseEmbedding", "SpokenWord", "Started", "Stream", "StreamBroken", "StreamedToken", "Summary",
    "Table", "Tagged", "TimedOut", "Token", "TooSlow", "Transcription", "Word", "connect", "difference", "export",
    "save_many", "side_by_side", "start", "summarise",
]  # fmt: skip
