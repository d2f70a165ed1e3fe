from .findings import Fault as Fault, Findings as Findings
from .mutants import MUTANTS as MUTANTS, Mutant as Mutant
from .questions import audit_batch as audit_batch, audit_questions as audit_questions
from .run import Audit as Audit, audit as audit
