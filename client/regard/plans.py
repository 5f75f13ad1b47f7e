"""What takes several requests, or waits for an input: written once as a plan, which both clients carry out.

A plan yields calls, is sent their answers, and returns what was asked for. It opens no connection.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias, TypeVar

from regard import calls
from regard.attention import Attention
from regard.calls import Call
from regard.errors import InputRefused, NotFound, Problem, RegardError, refused
from regard.inputs import encode
from regard.maps import Json
from regard.models import Description
from regard.options import Method
from regard.results import Asker, R, Result
from regard.tasks import TASKS, task_of
from regard.tasks.task import Task

T = TypeVar("T")
Plan: TypeAlias = Generator[Call[Any], Any, T]


def advance(plan: Plan[Any], answer: object = None, error: RegardError | None = None) -> tuple[bool, Any]:
    """Go on with a plan, by an answer or an error: return False and its next call, or True and what it returns."""
    try:
        return False, plan.throw(error) if error else plan.send(answer)
    except StopIteration as end:  # which no thread can raise
        return True, end.value


def sent(make: Callable[[], Call[T]]) -> Plan[T]:
    """Plan one call; it is made only now, since inputs are read then."""
    found: T = yield make()
    return found


def named(name: str) -> Plan[Description]:
    """Plan to get a model by its name. Raises NotFound with the names that there are."""
    try:
        found: Description = yield calls.get_model(name)
    except NotFound as error:
        names = [model.name for model in (yield calls.list_models())]
        if name in names:
            raise
        there = f"there are {', '.join(names)}" if names else "this service has no model"
        raise _not_found(f"model: there is none named {name!r}; {there}") from error
    return found


def one(task: Task[R], model: Description, given: object, options: Json, client: Asker | None) -> Plan[R]:
    """Plan the answer to one input. Raises NotFound if the model has no such task."""
    check(task, model)
    encoded = encode(given, model.sent)
    try:
        (found,) = yield calls.predictions(task, model, [encoded], options, client)
    except InputRefused as error:
        if encoded.name is None or not error.is_of_input:
            raise
        raise refused(error.problem, encoded.name) from None
    answer: R = found
    return answer


def several(
    task: Task[R], model: Description, given: Iterable[object], options: Json, client: Asker | None
) -> Plan[list[R]]:
    """Plan the answers to several inputs, in as few calls as the limits allow."""
    check(task, model)
    found = list[R]()
    for start, batch in calls.batches(model, given, len(options.get("labels", "1"))):
        with calls.placed(start, batch):
            answers: list[R] = yield calls.predictions(task, model, batch, options, client)
        found += answers
    return found


def check(task: Task[Any], model: Description) -> None:
    """Raise NotFound if a model has no such task, before its input is read."""
    if task.endpoint in TASKS and task.endpoint not in model.endpoints:
        raise _not_found(f"{task.endpoint}: {model.name!r} has no such task; it can {', '.join(model.endpoints)}")


def _not_found(detail: str) -> NotFound:
    return NotFound(Problem(404, "Not Found", detail))


def look(model: Description, result: Result, method: Method | None, options: Json) -> Plan[Attention]:
    """Plan what was looked at for an answer."""
    asked = calls.against(model, with_method(model, method, options))  # once: an open file is read to its end
    return (yield from _kept(result, calls.stored_attention(result, asked), calls.attention_again(result, asked)))


def png(model: Description, result: Result, method: Method | None, options: Json) -> Plan[bytes]:
    """Plan the same as a picture; without a method it is the one that the task is drawn by."""
    asked = calls.against(model, with_method(model, method or task_of(model).drawn_by(options), options))
    return (yield from _kept(result, calls.stored_picture(result, asked), calls.picture_again(result, asked)))


def _kept(result: Result, stored: Call[T], again: Call[T]) -> Plan[T]:
    """Plan to ask by the id of an answer, and with its input where the service has not kept that."""
    if stored.fits or not result.asked.is_repeatable:
        try:
            found: T = yield stored
        except NotFound as error:
            if not (error.problem.detail.startswith("id:") and result.asked.is_repeatable):
                raise
        else:
            return found
    repeated: T = yield again
    return repeated


def streamed(
    task: Task[R], model: Description, given: object, options: Json, client: Asker | None
) -> tuple[Call[Any], calls.Events[Any, R]]:
    """Return the call of a stream, and what reads its events."""
    check(task, model)
    encoded = encode(given, model.sent)
    call = calls.predictions(task, model, [encoded], {**options, "stream": True})
    return call, calls.Events(task, model, encoded, options, client)


def with_method(model: Description, method: Method | None, options: Json) -> Json:
    """Return options of attention with a method: where none is given, the model's usual one with its options."""
    return {**({"method": method} if method else model.usual), **options}


def asked_attention(model: Description, options: Json) -> Json:
    """Return the options of the endpoint of attention alone."""
    return calls.beside(with_method(model, options.get("method"), options))


def chosen(model: Description, task: str | None) -> Task[Result]:
    """Return a task of a model by the name of its endpoint or its method, or else its own. Raises NotFound."""
    if task is None:
        return task_of(model)
    name = task.replace("_", "-")
    found = TASKS.get(name)
    if found is None or name not in model.endpoints:
        raise _not_found(f"{task}: {model.name!r} has no such task; it can {', '.join(model.endpoints)}")
    return found
