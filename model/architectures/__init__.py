"""Whole models: a function or a class each that composes the parts."""
