"""Evidence: what was observed of a problem, and the table of pairs that planners and the network read."""

from mdpfn.evidence.protocol import Evidence, Novelty, State, Transition
from mdpfn.evidence.statistics import Statistics
from mdpfn.evidence.table import PairTable

__all__ = ["Evidence", "Novelty", "PairTable", "State", "Statistics", "Transition"]
