"""The checks of an audit, by name: each passes on the correct library, and raises on a broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.audit import accounting, accounts, exact_losses, guards, holdouts, ledgers, order, samplers

CHECKS: dict[str, Callable[[], Any]] = {
    "exact loss of noisy doors": exact_losses.check_noisy_losses,
    "exact loss of one bucket": exact_losses.check_one_bucket,
    "exact loss of selections": exact_losses.check_selection_losses,
    "exact loss of guards": exact_losses.check_guard_losses,
    "order of steps": order.check_order,
    "measured noise": guards.check_measured_noise,
    "guard transcripts": guards.check_guard_transcripts,
    "guard contributions": guards.check_guard_contributions,
    "hits of zero": guards.check_hits_of_zero,
    "sampler laws": samplers.check_laws,
    "samplers at large scales": samplers.check_large_scales,
    "minus zero": samplers.check_minus_zero,
    "far tail": samplers.check_far_tail,
    "no state in samplers": samplers.check_nothing_shared,
    "accounting": accounting.check_accounting,
    "accounts": accounts.check_accounts,
    "ledger": ledgers.check_ledger,
    "holdout": holdouts.check_answers,
    "holdout refusals": holdouts.check_refusals,
}
