"""What was observed of a problem, and the one table of pairs that planners and network read."""

from mdpfn.evidence.protocol import Evidence, Novelty, State, Transition
from mdpfn.evidence.statistics import Statistics
from mdpfn.evidence.table import PairTable

__all__ = ["Evidence", "Novelty", "PairTable", "State", "Statistics", "Transition"]
