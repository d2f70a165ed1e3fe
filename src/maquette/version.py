"""The version of Maquette that is installed."""

from importlib.metadata import version

__version__ = version("maquette")
