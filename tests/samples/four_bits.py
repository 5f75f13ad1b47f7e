"""Weights in 4 bits by their definition, number by number in float64."""

import copy

import numpy as np
import torch


def rounded(matrix):
    """Return a matrix (in, out) whose columns are, by blocks of 32, in steps of an eighth of the largest, -8 to 7."""
    found = np.zeros(matrix.shape)
    for column in range(matrix.shape[1]):
        for first in range(0, len(matrix), 32):
            block = matrix[first : first + 32, column].astype(np.float64)
            step = -block[np.abs(block).argmax()] / 8
            found[first : first + 32, column] = np.clip(np.round(block / step), -8, 7) * step if step else 0
    return found


def rounded_model(model):
    """Return a copy of a definition in float64 whose layers have such matrices; embeddings stay as they are."""
    model = copy.deepcopy(model).double()
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.weight = torch.nn.Parameter(torch.from_numpy(rounded(part.weight.detach().numpy().T).T.copy()))
    return model
