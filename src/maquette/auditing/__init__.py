"""Audits of the whole library on this machine: questions through every door, exact and sampled losses, mutants."""

from maquette.auditing.findings import Fault, Findings
from maquette.auditing.mutants import MUTANTS, Mutant
from maquette.auditing.questions import audit_batch, audit_questions
from maquette.auditing.run import Audit, audit

__all__ = ["MUTANTS", "Audit", "Fault", "Findings", "Mutant", "audit", "audit_batch", "audit_questions"]
