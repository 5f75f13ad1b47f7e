"""Ray Serve: HAProxy, which comes with it, and replicas that decode on threads and batch."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from shared import Model, parameters

os.environ["RAY_SERVE_THROUGHPUT_OPTIMIZED"] = "1"  # its own switches for throughput, read by its import
os.environ["RAY_SERVE_ENABLE_HA_PROXY"] = "1"  # three times the throughput of its Python proxy
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 # so it is called; Ray would yield to all that runs beside it
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import orjson
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

given = parameters()


@serve.deployment(num_replicas=given.workers, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0})
class Classifier:
    def __init__(self):
        self.model = Model(given.model, given.threads)
        self.pool = ThreadPoolExecutor(given.pool)
        self.device = ThreadPoolExecutor(1)

    async def __call__(self, request: Request):
        image = await self.on(self.pool, self.model.decode, await request.body())
        return Response(orjson.dumps(await self.run(image)), media_type="application/json")

    @serve.batch(max_batch_size=given.batch, batch_wait_timeout_s=given.timeout / 1000)
    async def run(self, images):
        return await self.on(self.device, self.model.classify, images)

    async def on(self, pool, function, argument):
        return await asyncio.get_running_loop().run_in_executor(pool, function, argument)


def main():
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level="warning", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": given.port})
    serve.run(Classifier.bind(), route_prefix="/classify")
    stopped.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
