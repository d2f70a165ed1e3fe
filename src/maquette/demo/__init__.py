"""The embedded example: a generated health survey, the story told on it, and how fast this machine is."""

from maquette.demo.speed import PARTS, Figure, measure
from maquette.demo.story import FILES, tell
from maquette.demo.survey import ROWS, SCHEMA, survey

__all__ = ["FILES", "PARTS", "ROWS", "SCHEMA", "Figure", "measure", "survey", "tell"]
