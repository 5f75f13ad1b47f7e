"""Minutes on a GPU, prepared elsewhere: what is carried there, and what is measured there.

`python -m benchmarks.gpu_kit.prepare --to kit` writes packs of a bounded size: the code, models without their large
weights (which are drawn anew there), and the packages that a machine with Python, PyTorch and CUDA lacks. There,
`python3 unpack.py` and `python3 measure.py` need nothing else; the second writes one file, of which
`python -m benchmarks.gpu_kit.rows` makes rows for RESULTS.md. docs/gpu.md says how to use it.
"""
