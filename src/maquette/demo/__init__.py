"""The embedded example: a generated health survey and a short story told on it."""

from maquette.demo.story import tell
from maquette.demo.survey import ROWS, SCHEMA, survey

__all__ = ["ROWS", "SCHEMA", "survey", "tell"]
