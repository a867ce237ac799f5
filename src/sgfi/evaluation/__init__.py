"""Metrics, baselines, controls and statistics of feature inverses."""
