"""Self-contained HTML reports: one file, no network, no script, readable on a telephone, light and dark."""

from __future__ import annotations

from sgfi.report.html import Code, Drawing, Picture, Report, Section, Table, Text, render

__all__ = ["Code", "Drawing", "Picture", "Report", "Section", "Table", "Text", "render"]
