"""Audits of the whole library on this machine: questions through every door, exact and sampled losses, mutants."""

from maquette.auditing.findings import Fault, Findings
from maquette.auditing.questions import audit_batch, audit_questions

__all__ = ["Fault", "Findings", "audit_batch", "audit_questions"]
