"""The query-release game: one player picks records, the other queries; an equilibrium is a synthetic table.

`equilibrium` is the game on public data; `dual_query`, `both_learn`, `analyst_private` and `boosting` play it against
private rows through one door, `Curator.lottery`.
"""
