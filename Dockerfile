# Three images from one file: docker build --target cpu|gpu|export --tag regard:<tag> .
#   cpu, gpu  the service; no PyTorch inside
#   export    writes artifacts; PyTorch inside
# The lock files are for Python 3.12. --build-arg BASE_IMAGE=... names another base image. To renew the digest:
# docker buildx imagetools inspect python:3.12-slim
ARG BASE_IMAGE=python:3.12-slim@sha256:dddfd7e07f9d15aeeca61529320492139d21cac7f0070c00609243e51e4e0016

# One virtual environment for each target. It holds no pip: the pip of the base image fills it.
FROM ${BASE_IMAGE} AS venv
WORKDIR /build
RUN python3 -m venv --without-pip /opt/venv
ENV PIP_ROOT_USER_ACTION=ignore

# --only-binary: nothing is compiled and no setup.py runs.
# unchecked-hash: files in an image do not change, so the bytecode stays valid whatever happens to file times.
FROM venv AS venv-cpu
COPY requirements/cpu.lock ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r cpu.lock \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib

# CUDA and cuDNN are wheels, pinned in the lock file. So there is no CUDA base image; only the driver comes from the
# host.
FROM venv AS venv-gpu
COPY requirements/gpu.lock ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r gpu.lock \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib

# The package index has only the CUDA build of torch for Linux. It requires the NVIDIA packages (several gigabytes),
# although an export runs on the CPU. This image runs once and serves nothing.
# -x: torch's own tests contain files in the syntax of other Python versions.
FROM venv AS venv-export
COPY requirements/export.lock ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r export.lock \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -x torch/testing/_internal /opt/venv/lib

# chmod: the user of the image must be able to read the files, whatever modes the checkout has.
FROM ${BASE_IMAGE} AS code-serving
WORKDIR /app
COPY contract/ contract/
COPY service/ service/
RUN python3 -m compileall -q --invalidation-mode unchecked-hash . && chmod -R a=rX .

FROM ${BASE_IMAGE} AS code-export
WORKDIR /app
COPY contract/ contract/
COPY model/ model/
COPY export/ export/
RUN python3 -m compileall -q --invalidation-mode unchecked-hash . && chmod -R a=rX .

# The base of all three images. The user has a name and a writable home, because libraries need both.
# The user owns /artifacts, because a new volume takes the owner of the folder that it is mounted on.
# No program here needs to become another user, so no file has the setuid or setgid bit.
FROM ${BASE_IMAGE} AS runtime
RUN groupadd --gid 10001 regard \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin regard \
    && install --directory --owner 10001 --group 10001 /artifacts \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
ARG VCS_REF=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="regard" \
      org.opencontainers.image.description="Serves Transformers and Vision Transformers over HTTP and shows what they looked at." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${VCS_REF}"

FROM runtime AS serving
ENV REGARD_HOST=0.0.0.0 \
    REGARD_PORT=8000 \
    REGARD_ARTIFACTS=/artifacts
EXPOSE 8000
# ProxyHandler({}): the health check must not go through a proxy that is set for the container.
HEALTHCHECK --interval=15s --timeout=5s --start-period=300s --retries=4 \
    CMD ["python", "-Ic", "import os, urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['REGARD_PORT'] + '/health/live', timeout=3)"]
ENTRYPOINT ["python", "-m", "service"]

FROM serving AS cpu
COPY --from=venv-cpu /opt/venv /opt/venv
COPY --from=code-serving /app /app

# libcuda comes from NVIDIA's container runtime, which reads the capabilities. Whatever starts the container chooses the
# GPUs; a value here would show every GPU to a container that asked for none.
FROM serving AS gpu
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    REGARD_DEVICE=cuda
COPY --from=venv-gpu /opt/venv /opt/venv
COPY --from=code-serving /app /app

FROM runtime AS export
COPY --from=venv-export /opt/venv /opt/venv
COPY --from=code-export /app /app
ENTRYPOINT ["python", "-m", "export"]
CMD ["digits", "dates", "--to", "/artifacts"]
