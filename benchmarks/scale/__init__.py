"""From one machine to many: what a request costs, how many replicas a load needs, and what breaks first.

`python -m benchmarks.scale` lists the parts: docs/capacity.md has what they found.
"""
