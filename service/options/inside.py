"""The options of what is inside a head."""

from pydantic import Field

from contract.manifest import KindName
from service.options.base import RequestOptions


class InsideOptions(RequestOptions):
    """Options of one step inside attention: a layer, a row and a column of it."""

    kind: KindName | None = Field(None, description="of a model that has several")
    layer: int = Field(-1, description="-1 is the last")
    query: int = Field(description="position of the row; -1 is the last")
    key: int = Field(description="position of the column; -1 is the last")
    digits: int = Field(5, ge=1, le=9, description="decimals of a number in JSON")
