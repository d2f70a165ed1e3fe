"""Evaluation: each hazard of a differential-privacy guarantee, and what this publication does about it.

The order is that of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees, 2025), from the
parameters at the top down to the collection of the data, on which everything depends. The words are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from maquette.reports.account import CURRENCIES
from maquette.reports.registry import NAMES
from maquette.reports.risk import told
from maquette.reports.subject import Subject, subject_of, without_evidence

Status = Literal["met", "partly", "yours", "not met"]


@dataclass(frozen=True)
class Hazard:
    """Something that can void or weaken a guarantee, who is responsible for it, and its status here.

    `status`: "met" by the software, "partly", "yours" (for the custodian to decide or to secure), or "not met".
    """

    part: str
    topic: str
    status: Status
    answer: str


def evaluation(thing: object) -> tuple[Hazard, ...]:
    """Every hazard with the answer for this release or session."""
    subject = thing if isinstance(thing, Subject) else subject_of(thing)
    return tuple(hazard(subject) for hazard in _HAZARDS)


def _parameters(subject: Subject) -> Hazard:
    epsilon, delta = told(subject.total)
    size = "strong" if epsilon <= 1 else "moderate" if epsilon <= 5 else "weak"
    status: Status = "met" if epsilon <= 1 else "partly" if epsilon <= 5 else "not met"
    return Hazard(
        "The guarantee",
        "Privacy parameters",
        status if subject.private else "not met",
        f"All charges up to this publication: epsilon {epsilon:.4g} at delta {delta:g}. Up to 1 is commonly called "
        f"strong, up to 5 moderate, and more than 5 weak; this is {size}. Whether that is enough "
        "for this data is for the custodian to decide.",
    )


def _delta(subject: Subject) -> Hazard:
    delta = told(subject.total)[1]
    if delta == 0:
        return Hazard(
            "The guarantee", "Failure probability", "met", "There is no delta: the guarantee has no exception."
        )
    expected = delta * subject.rows
    return Hazard(
        "The guarantee",
        "Failure probability",
        "met" if expected < 1e-3 else "partly",
        f"delta is {delta:g}; times about {subject.rows:,.0f} rows that is {expected:.2g}; it should be well below 1. "
        "A delta of 1 / rows or more is refused if the number of rows is public; if not, one above 1e-5 is refused.",
    )


def _unit(subject: Subject) -> Hazard:
    row = subject.unit == "one row"
    return Hazard(
        "The guarantee",
        "Unit of privacy",
        "yours" if row else "met",
        f"Neighbouring tables differ in {subject.unit} ({subject.relation}). "
        + (
            "If one person can have several rows, this protects each row, but the person less: declare the column that "
            "identifies people as the unit."
            if row
            else "Everything one unit contributed is protected together."
        ),
    )


def _contributions(subject: Subject) -> Hazard:
    row = subject.unit == "one row"
    return Hazard(
        "The guarantee",
        "Bounded contributions",
        "met",
        "A unit is a row, so its contribution is bounded by definition."
        if row
        else "At most the declared number of rows per unit is kept when the table is opened, before any counting.",
    )


def _composition(subject: Subject) -> Hazard:
    before = sum(line.units for line in subject.lines if not line.own)
    name = subject.currency.partition(" ")[0]
    part = f"{before / max(1, subject.total.units):.0%} of its {CURRENCIES[name]}"
    told_before = f" {part} was not charged by this publication." if before else ""
    return Hazard(
        "The guarantee",
        "Multiple releases",
        "partly",
        f"One ledger adds up every access to this table ({NAMES[name]}).{told_before} It cannot know of other tables "
        "about the same people, of copies of this one under another ledger, or of later charges.",
    )


def _algorithms(subject: Subject) -> Hazard:
    answer = (
        f"Method: {subject.method}. Rows are accessed in only a few ways (noisy counts, private selection, a "
        "sparse-vector guard), each with a written sensitivity argument and an exhaustive audit on small tables; "
        "models and synthetic rows are post-processing. To test this on your own machine and version, run "
        "`maquette audit --out audit.html`: its page says what was tried, on which kind of access, and which "
        "deliberately broken variants of the software were detected."
    )
    if not subject.private:
        return Hazard(
            "The software", "Algorithms", "not met", "The noise was injected for a test: NOT PRIVATE. " + answer
        )
    return Hazard("The software", "Algorithms", "met", answer)


def _utility(subject: Subject) -> Hazard:
    if subject.promise:
        return Hazard("The software", "Utility and bias", "met", f"Stated accuracy: {subject.promise}.")
    if subject.release is not None and subject.release.check is not None:
        stated = subject.release.check.statement(subject.confidence)
        answer = f"Every question of the workload has an interval; {stated}. Clamping and binning are not included."
        return Hazard("The software", "Utility and bias", "met", answer)
    if without_evidence(subject):
        answer = "This method keeps no measurements besides its model: answers have no interval."
        return Hazard("The software", "Utility and bias", "partly", answer)
    return Hazard(
        "The software",
        "Utility and bias",
        "partly",
        "Answers covered by measurements have noise intervals; others have the bounds that follow from logic and "
        "from measurements of fewer columns. Clamping and binning by the schema, and rare groups hidden by noise, "
        "cause biases that the intervals do not include.",
    )


def _floating(subject: Subject) -> Hazard:
    return Hazard(
        "The software",
        "Floating point",
        "met",
        "Counts, scores and noise are integers, noise is drawn exactly from the discrete distributions of the theory, "
        "and budgets add up in integers.",
    )


def _randomness(subject: Subject) -> Hazard:
    return Hazard(
        "The software",
        "Randomness",
        "met" if subject.private else "not met",
        "Noise uses the operating system's generator; there is no seed and no state to steal."
        if subject.private
        else "Noise came from a source injected for a test: NOT PRIVATE.",
    )


def _timing(subject: Subject) -> Hazard:
    if subject.kind == "release":
        answer = (
            "A release is a finished file: the time to answer from it depends on nothing private. The time it took to "
            "make may depend on the rows; do not publish that."
        )
        return Hazard("The software", "Timing", "met", answer)
    answer = "The time of an answer can depend on the rows. Do not let strangers time this session without a deadline."
    return Hazard("The software", "Timing", "not met", answer)


def _domain(subject: Subject) -> Hazard:
    if subject.schema.guessed:
        return Hazard(
            "The software",
            "Universe and bounds",
            "not met",
            "Bounds and levels were drafted by reading the rows, and the draft was used without a review. They may "
            "reveal something about single people, such as the largest value, and no epsilon accounts for that.",
        )
    return Hazard(
        "The software",
        "Universe and bounds",
        "yours",
        "Columns, levels, bins and clamping bounds come from the schema, never from the rows. That holds only if the "
        "schema was written without looking at them: a guessed schema must be reviewed.",
    )


def _query_model(subject: Subject) -> Hazard:
    if subject.kind == "release":
        answer = "The rows are no longer accessed: questions go to the published model, and cost nothing."
        return Hazard("The surroundings", "Interactive access", "met", answer)
    limit = "" if subject.limit is None else f" of at most epsilon {told(subject.limit)[0]:.4g}"
    answer = (
        f"Analysts ask adaptively under one budget{limit}. It covers all analysts together, so collusion gains "
        "nothing; each may have a separate limit. Analysts can see what the questions of others cost."
    )
    return Hazard("The surroundings", "Interactive access", "met", answer)


def _trust(subject: Subject) -> Hazard:
    return Hazard(
        "The surroundings",
        "Trust model",
        "yours",
        "Central: the custodian, the machine and this software see the rows. Nothing protects people against them.",
    )


def _security(subject: Subject) -> Hazard:
    return Hazard(
        "The surroundings",
        "Security and access control",
        "yours",
        "The rows, the ledger and its key are files: the custodian decides who can read them and their backups. "
        "The ledger detects changes; with an anchor kept elsewhere, also its replacement by an older copy.",
    )


def _collection(subject: Subject) -> Hazard:
    return Hazard(
        "The surroundings",
        "Data collection exposure",
        "yours",
        "Rows can leak where they were collected, sent or stored before they came here. Collect less, keep it for a "
        "shorter time, and tell people; noise added later cannot repair that.",
    )


def _group_facts(subject: Subject) -> Hazard:
    return Hazard(
        "The surroundings",
        "What is not promised",
        "partly",
        "Facts about groups of people are published, even if they allow inferences about someone who is not in the "
        "table; the guarantee is that one person's participation hardly matters.",
    )


_HAZARDS: tuple[Callable[[Subject], Hazard], ...] = (
    _parameters,
    _delta,
    _unit,
    _contributions,
    _composition,
    _algorithms,
    _utility,
    _domain,
    _floating,
    _randomness,
    _timing,
    _query_model,
    _trust,
    _security,
    _collection,
    _group_facts,
)
