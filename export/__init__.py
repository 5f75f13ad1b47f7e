"""Definition and weights to an artifact: trace, optimize, verify, pack."""
