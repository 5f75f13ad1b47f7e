"""Graphs: traced, built node by node, lowered, quantized."""
