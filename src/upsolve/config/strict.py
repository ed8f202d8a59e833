"""What every stage of a recipe is built on."""

from pydantic import BaseModel, ConfigDict

__all__ = ["Strict"]


class Strict(BaseModel):
    """Unknown keys and wrong types fail; instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)
