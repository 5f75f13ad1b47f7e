"""Checks of a graph: against its definition in float64, and what eight bits cost."""
