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


def create():
    """Return the application; every worker process calls this."""
    given = parameters()
    model = Model(given.model, given.threads)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        anyio.to_thread.current_default_thread_limiter().total_tokens = given.pool
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/classify")
    def classify(data: Annotated[bytes, Depends(body)]):
        (found,) = model.classify([model.decode(data)])
        return Response(orjson.dumps(found), media_type="application/json")

    return app


if __name__ == "__main__":
    given = parameters()
    uvicorn.run(
        "serve_fastapi:create",
        factory=True,
        port=given.port,
        workers=given.workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
