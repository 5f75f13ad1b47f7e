"""How good the explanations are, where the truth is known: models, measures, and the page that they make."""
