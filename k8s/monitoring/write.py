"""Write prometheusrule.yaml, which the operator reads, from rules.yaml: `python k8s/monitoring/write.py`."""

from pathlib import Path

RULES = Path(__file__).with_name("rules.yaml")
HEAD = """\
# Written by write.py from rules.yaml: change that one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: regard
spec:
"""


def rule():
    """Return the resource whose `spec` is the rules."""
    text = RULES.read_text()
    return HEAD + "".join(
        f"  {line}" if line.strip() else line for line in text[text.index("groups:") :].splitlines(True)
    )


if __name__ == "__main__":
    RULES.with_name("prometheusrule.yaml").write_text(rule())
