"""Entry points: a real distribution on the path adds a rule, a method and a distinguisher; a broken one says so."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.distinguisher import DISTINGUISHERS, distinguisher_of
from maquette.errors import DataError, QueryError
from maquette.extensions import find, offered
from maquette.hypothesis import HYPOTHESES, Perceptron, hypothesis_named
from maquette.releases import METHODS, mwem
from maquette.session import LazyConstruction, OnlineIC

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Category("region", ["n", "e", "s"])])
MODULE = '''
from typing import ClassVar
from maquette.distinguisher import WorstCell
from maquette.hypothesis import MultiplicativeWeights, Perceptron
from maquette.releases import gaussian, laplace

class Nearest(Perceptron):
    kind: ClassVar[str] = "nearest"

class Perceptron(Perceptron):
    """Wants to be taken for the one of Maquette."""

def plain(curator, workload, *, epsilon=None, rho=None, loud=False):
    return laplace(curator, workload, epsilon=epsilon, rho=rho)

careful = WorstCell("permute-and-flip")
number = 7
'''
ENTRIES = """
[maquette.hypotheses]
nearest = acme_rules:Nearest
perceptron = acme_rules:Perceptron
absent = acme_rules:Absent
number = acme_rules:number

[maquette.methods]
plain = acme_rules:plain
everything = acme_rules:plain
number = acme_rules:number

[maquette.distinguishers]
careful = acme_rules:careful
"""


def distribution(folder: Path, name: str, entries: str, module: str = "") -> None:
    """What pip leaves behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    if module:
        (folder / f"{name}.py").write_text(module, encoding="utf-8")


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    distribution(folder, "acme_rules", ENTRIES, MODULE)
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("acme_rules", None)


def opened(epsilon: float = 40.0, **settings: object) -> mq.Curator:
    rng = np.random.default_rng(0)
    rows = {"smoker": rng.random(2000) < 0.3, "region": rng.choice(["n", "e", "s"], 2000)}
    return mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=epsilon, **settings))  # type: ignore[arg-type]


def test_nothing_is_offered_where_nothing_is_installed() -> None:
    assert offered("maquette.hypotheses", HYPOTHESES) == ()
    with pytest.raises(QueryError, match="hypothesis is 'nearest'; expected one of cut-decomposition, graphical"):
        hypothesis_named("nearest")


def test_packages_are_read_again_only_when_they_change(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times, read = 0, importlib.metadata.entry_points

    def counted(**group: str) -> object:
        nonlocal times
        times += 1
        return read(**group)

    monkeypatch.setattr("maquette.extensions.entry_points", counted)
    assert "nearest" in [offered("maquette.hypotheses", HYPOTHESES) for _ in range(3)][-1]
    assert times == 1
    distribution(acme, "zulu", "[maquette.hypotheses]\nnearer = zulu:Nearer\n")
    assert "nearer" in offered("maquette.hypotheses", HYPOTHESES)
    shutil.rmtree(acme / "zulu-1.0.dist-info")
    assert "nearer" not in offered("maquette.hypotheses", HYPOTHESES)


@pytest.mark.thorough
@pytest.mark.usefixtures("acme")
def test_a_name_of_a_package_works_everywhere(tmp_path: Path) -> None:
    """Offline, online, in MWEM, in a file and in a plan."""
    workload = mq.marginals(SCHEMA, k=1)
    with opened() as curator:
        offline = mq.release(curator, workload, method="iterative-construction", hypothesis="nearest", rows=10**9)
    assert type(offline.model).__name__ == "Nearest"
    assert offline.certificate.method == "iterative-construction (nearest, tight)"
    with opened() as curator:
        session = OnlineIC(curator, "nearest", queries=5, rows=10**7)
        assert type(session.hypothesis).__name__ == "Nearest"
        assert session.ask("smoker").guarantee is not None
    with opened(delta=1e-9, accounting="basic") as curator:
        lazy = LazyConstruction(curator, "nearest", epsilon=30.0, queries=5)
        assert type(lazy.hypothesis).__name__ == "Nearest"
    with opened() as curator:
        assert type(mwem(curator, workload, model="nearest", rounds=3).model).__name__ == "Nearest"
    offline.save(tmp_path / "it.maq")
    again = mq.Release.load(tmp_path / "it.maq")
    assert type(again.model) is type(offline.model)
    assert again.answer("smoker") == offline.answer("smoker")
    plan = mq.plan(rows=10**6, schema=SCHEMA, queries=100, epsilon=1.0, delta=1e-9)
    assert plan["nearest-ic"].error == plan["perceptron-ic"].error
    assert plan["nearest-online"].runnable


@pytest.mark.usefixtures("acme")
def test_a_broken_one_names_its_package_and_leaves_the_rest_alone() -> None:
    with pytest.raises(QueryError, match=r"'absent' of the package acme_rules 1\.0 cannot be loaded.*AttributeError"):
        hypothesis_named("absent")
    with pytest.raises(QueryError, match="7 is not an update rule"):
        hypothesis_named("number")
    with pytest.raises(QueryError, match="'number' of an installed package is 7, which cannot be called"):
        mq.release(opened(), mq.marginals(SCHEMA, k=1), method="number")
    plan = mq.plan(rows=10**6, schema=SCHEMA, queries=100, epsilon=1.0, delta=1e-9)
    assert "acme_rules" in (plan["absent-ic"].obstacle or "")
    assert plan["mw-ic"].runnable


@pytest.mark.usefixtures("acme")
def test_no_package_replaces_a_name_of_ours() -> None:
    assert hypothesis_named("perceptron").__module__ == "maquette.hypothesis.perceptron"
    with opened() as curator:
        assert mq.release(curator, mq.marginals(SCHEMA, k=1), method="everything").certificate.method == "everything"
    assert "everything" not in offered("maquette.methods", METHODS)
    assert [p.name for p in mq.plan(rows=10**6, schema=SCHEMA, queries=9, epsilon=1.0)].count("perceptron-ic") == 1


@pytest.mark.usefixtures("acme")
def test_two_packages_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "other", "zulu", "[maquette.hypotheses]\nnearest = zulu:Nearest\n")
    monkeypatch.syspath_prepend(tmp_path / "other")
    with pytest.raises(QueryError, match=r"by the packages acme_rules 1\.0 and zulu 1\.0; uninstall all"):
        find("maquette.hypotheses", "nearest", ())


@pytest.mark.usefixtures("acme")
def test_a_method_of_a_package_has_its_settings_and_a_certificate_from_the_ledger() -> None:
    with opened() as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=1), method="plain", loud=True, epsilon=1.0)
        assert made.certificate.method == "plain"
        assert made.certificate.epsilon == pytest.approx(1.0)
        with pytest.raises(QueryError, match="method 'plain' has no setting quiet; it has loud"):
            mq.release(curator, mq.marginals(SCHEMA, k=1), method="plain", quiet=True, epsilon=1.0)
        with pytest.raises(QueryError, match="analyst-private, number, plain"):
            mq.release(curator, mq.marginals(SCHEMA, k=1), method="plane")
        assert curator.spent.epsilon == pytest.approx(1.0)


@pytest.mark.usefixtures("acme")
def test_a_distinguisher_of_a_package_points() -> None:
    assert distinguisher_of("careful") == DISTINGUISHERS["permute-and-flip"]
    with pytest.raises(QueryError, match="one of exponential, permute-and-flip, signed, careful"):
        distinguisher_of("careless")
    with opened() as curator:
        made = mq.release(
            curator,
            mq.marginals(SCHEMA, k=1),
            method="iterative-construction",
            hypothesis="perceptron",
            distinguisher="careful",
            rows=10**9,
        )
    assert made.certificate.accuracy is not None


@pytest.mark.usefixtures("acme")
def test_a_file_of_a_package_that_is_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as curator:
        mwem(curator, mq.marginals(SCHEMA, k=1), model="nearest", rounds=2).save(tmp_path / "it.maq")
    monkeypatch.undo()
    with pytest.raises(DataError, match="there is no model of kind 'nearest' here"):
        mq.Release.load(tmp_path / "it.maq")


@pytest.mark.thorough
def test_packages_are_not_looked_at_before_a_name_is_unknown(acme: Path) -> None:
    """In a process of its own: built-in names import nothing of others."""
    code = f"""
    import sys
    sys.path.insert(0, {str(acme)!r})
    import maquette as mq
    from maquette.hypothesis import hypothesis_named
    from maquette.releases import method_of
    hypothesis_named("perceptron"), method_of("everything")
    assert "acme_rules" not in sys.modules
    hypothesis_named("nearest")
    assert "acme_rules" in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_classes_are_rules_too_and_others_are_refused_before_any_charge() -> None:
    workload = mq.marginals(SCHEMA, k=1)
    with opened() as curator:
        made = mq.release(
            curator, workload, method="iterative-construction", hypothesis=Perceptron, rows=10**9, epsilon=1.0
        )
        assert made.certificate.method == "iterative-construction (perceptron, tight)"
        spent = curator.ledger.spent()
        with pytest.raises(QueryError, match=r"SparseWeights\(schema, alpha=\.\.\.\) makes no model"):
            OnlineIC(curator, HYPOTHESES["sparse-weights"], queries=5)
        with pytest.raises(QueryError, match="is not an update rule"):
            mwem(curator, workload, model=int)  # type: ignore[arg-type]
        assert curator.ledger.spent() == spent
