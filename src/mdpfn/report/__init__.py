"""A page that shows what came of a log: one self-contained HTML file."""

from mdpfn.report.page import write_report

__all__ = ["write_report"]
