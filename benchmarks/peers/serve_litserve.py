"""LitServe: requests go through a queue to worker processes, which decode and batch."""

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import litserve
import orjson
from fastapi import Body, Response
from shared import Model, parameters


class Classifier(litserve.LitAPI):
    def __init__(self, given):
        super().__init__(max_batch_size=given.batch, batch_timeout=given.timeout / 1000, api_path="/classify")
        self.given = given

    def setup(self, device):
        self.model = Model(self.given.model, self.given.threads)
        self.pool = ThreadPoolExecutor(self.given.pool)

    def decode_request(self, request: Annotated[bytes, Body(media_type="image/jpeg")]):
        return request

    def batch(self, inputs):
        return inputs

    def unbatch(self, output):
        return output

    def predict(self, x):
        if isinstance(x, bytes):  # it does not batch
            return self.model.classify([self.model.decode(x)])[0]
        return self.model.classify(list(self.pool.map(self.model.decode, x)))

    def encode_response(self, output):
        return Response(orjson.dumps(output), media_type="application/json")


if __name__ == "__main__":
    given = parameters()
    server = litserve.LitServer(
        Classifier(given), accelerator="cpu", devices=1, workers_per_device=given.workers, fast_queue=True
    )
    server.run(
        host="127.0.0.1",
        port=given.port,
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
        loop="uvloop",
        http="httptools",
    )
