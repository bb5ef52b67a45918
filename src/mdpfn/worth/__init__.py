"""What policies are worth, by models that may be the true one and by importance weights."""

from mdpfn.worth.importance import ImportanceCheck
from mdpfn.worth.policy_table import PolicyLike
from mdpfn.worth.values import Improvement, PolicyValue, Regret, Risk
from mdpfn.worth.worth import Worth

__all__ = ["ImportanceCheck", "Improvement", "PolicyLike", "PolicyValue", "Regret", "Risk", "Worth"]
