"""What looks at a state of a page: axe, its width, and a picture where somebody wants to see it; in light and dark."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]}
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
PICTURES = os.environ.get("MAQUETTE_PICTURES")  # a folder for pictures of every state, to be looked at
FAULTS = """async (rules) => {
  const found = await axe.run(document, rules);
  return found.violations.map((each) => [each.id, each.nodes[0].html]);
}"""


class Looker:
    """Looks at a page in one width, in both schemes; colours are switched without drawing the page anew."""

    def __init__(self, width: int) -> None:
        axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
        self._axe, self._width = axe.AXE_SCRIPT, width

    def __call__(self, page: Any, what: str) -> None:
        """Fail if something breaks WCAG AA or is wider than the screen."""
        if not page.evaluate("'axe' in window"):
            page.evaluate(self._axe)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            faults = page.evaluate(FAULTS, RULES)
            assert faults == [], (what, self._width, scheme, faults)
            if PICTURES:
                name = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
                page.screenshot(path=Path(PICTURES) / f"{name}-{self._width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= self._width, (what, self._width)
