"""One of two towers of the reference library, as if it were a model of its own."""

import torch


class Tower(torch.nn.Module):
    """The encoder of pictures, or of texts, and the projection of its vector. It keeps the pool's attention as well."""

    def __init__(self, model, tower):
        super().__init__()
        self.body = getattr(model, f"{tower}_model")
        self.config = self.body.config
        self.projection = getattr(model, {"vision": "visual_projection", "text": "text_projection"}[tower], None)
        self.pool = getattr(self.body, "head", None) if tower == "vision" else None
        self.pooled, self.values = [], []
        if self.pool is not None:
            self.pool.attention.forward = self.attend

    def attend(self, probe, states, _):
        """What an nn.MultiheadAttention does, written out, so that its weights are in autograd's graph."""
        own = self.pool.attention
        weights, biases = own.in_proj_weight.chunk(3), own.in_proj_bias.chunk(3)
        query, key, value = (
            (x @ weight.T + bias).unflatten(2, (own.num_heads, -1)).transpose(1, 2)
            for x, weight, bias in zip((probe, states, states), weights, biases, strict=True)
        )
        shares = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        self.pooled[:], self.values[:] = [shares], [value.detach().numpy()]
        return own.out_proj((shares @ value).transpose(1, 2).flatten(2)), None

    def forward(self, *given, **options):
        """Return what the body does, its vector projected."""
        out = self.body(*given, **options)
        if out.pooler_output is None:  # of a BERT
            out.pooler_output = out.last_hidden_state[:, 0]
        if self.projection is not None:
            out.pooler_output = self.projection(out.pooler_output)
        return out
