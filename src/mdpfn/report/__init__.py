"""The report of a fitted log: one self-contained HTML file."""

from mdpfn.report.page import write_report

__all__ = ["write_report"]
