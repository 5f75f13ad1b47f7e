"""What all parts of a manifest share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
FileName = Annotated[str, Field(pattern=NAME, description="in the artifact's folder")]
Size = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """Base of everything in a manifest: immutable, and nothing unknown passes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
