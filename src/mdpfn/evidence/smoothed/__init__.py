"""Vectors as evidence: a smoother of transitions, and the table of pairs that it gives over nodes."""

from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.evidence import SmoothedEvidence

__all__ = ["SmoothedEvidence", "SmootherConfig"]
