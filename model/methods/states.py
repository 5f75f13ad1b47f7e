"""What states of tokens say of one another, whatever the answer is."""

import torch
from torch import Tensor

SMALLEST_LENGTH = 1e-12
"""A vector that is shorter is divided by this instead, so that its cosine with all is 0."""


def likeness(states: Tensor, parts: Tensor) -> Tensor:
    """The cosine of each state with each other, both less the mean of the parts: (token, token).

    States are (token, width). `parts` (token) says which tokens are parts of an input: patches, or words, no special
    tokens. DINOv2's patches of one kind of thing are so alike (Oquab et al. 2023, arXiv 2304.07193, section 7.5; Amir
    et al. 2021, arXiv 2112.05814, compare keys so).
    """
    apart = states - states[parts].mean(0)
    unit = apart / torch.linalg.vector_norm(apart, dim=1, keepdim=True).clamp(min=SMALLEST_LENGTH)
    return unit @ unit.T
