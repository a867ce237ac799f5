"""Self-contained HTML reports: one file, no network, no script, readable on a telephone, light and dark."""

from __future__ import annotations

from sgfi.report.html import Code, Picture, Report, Section, Table, Text, render

__all__ = ["Code", "Picture", "Report", "Section", "Table", "Text", "render"]
