"""The demonstration: `sgfi report` on a real network and real photographs, with maps that are fitted on the way."""

from sgfi.demo.running import DemoSettings, run, summary

__all__ = ["DemoSettings", "run", "summary"]
