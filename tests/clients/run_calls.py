"""Runs the calls of one module against a service, and prints what came of each as a line of JSON.

    .venv-clients/NAME/bin/python tests/clients/run_calls.py MODULE SERVICE

It runs in a client's environment, which has nothing of the project's. SERVICE is a JSON object whose members the calls
get as attributes.
"""

import contextlib
import importlib
import inspect
import json
import signal
import sys
import traceback
import types

SECONDS = 180
"""What one call may take; a load generator takes the most."""


class Late(BaseException):
    """A call has taken too long; no handler of a client swallows it."""


def attempt(call, service):
    """Return what went wrong in a call, or None."""
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            call(service)
    except Late:
        return f"no answer within {SECONDS} seconds"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {str(error) or place.line}"
        return f"{words[:500]} ({place.filename.rpartition('/')[2]}:{place.lineno})"
    finally:
        signal.alarm(0)
    return None


def calls_of(module):
    """Return its CALLS, or else its functions that take a service alone and say what they ask, in their order."""
    if hasattr(module, "CALLS"):
        return module.CALLS
    own = [one for one in vars(module).values() if inspect.isfunction(one) and one.__module__ == module.__name__]
    takes = {one: list(inspect.signature(one, follow_wrapped=False).parameters) for one in own}
    return [one for one in own if one.__doc__ and takes[one] == ["service"]]


def late(number, frame):
    """Interrupt a call."""
    raise Late


def main():
    """Run every call of a module, in order."""
    signal.signal(signal.SIGALRM, late)
    module, described = sys.argv[1:]
    service = json.loads(described, object_hook=lambda members: types.SimpleNamespace(**members))
    for call in calls_of(importlib.import_module(module)):
        fault = attempt(call, service)
        name = (call.__doc__ or call.__name__).strip().rstrip(".")
        print(json.dumps({"call": name, "ok": fault is None, "fault": fault}), flush=True)


if __name__ == "__main__":
    main()
