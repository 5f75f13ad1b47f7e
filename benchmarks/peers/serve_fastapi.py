"""FastAPI as most write it: a `def` route, which runs on a pool of threads. It does not batch."""

import contextlib
from typing import Annotated

import anyio.to_thread
import orjson
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from shared import Model, parameters


async def body(request: Request):
    return await request.body()


def application(path, answer, pool):
    """Return an application whose route answers a body by `answer`, which returns what JSON can hold."""

    @contextlib.asynccontextmanager
    async def lifespan(_):
        anyio.to_thread.current_default_thread_limiter().total_tokens = pool
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post(path)
    def route(data: Annotated[bytes, Depends(body)]):
        return Response(orjson.dumps(answer(data)), media_type="application/json")

    return app


def create():
    """Return the application; every worker process calls this."""
    given = parameters()
    model = Model(given.model, given.threads)
    return application("/classify", lambda data: model.classify([model.decode(data)])[0], given.pool)


def run(factory):
    """Serve an application by the name of what creates it."""
    given = parameters()
    uvicorn.run(
        factory,
        factory=True,
        port=given.port,
        workers=given.workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    run("serve_fastapi:create")
