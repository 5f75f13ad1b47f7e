# Images from one file: docker build --target cpu --tag regard:0.1.0-cpu .
#   cpu, gpu        the service with the models digits and dates in /artifacts; no PyTorch, no pip, no compiler
#   with-models     the service with your models in /artifacts (with-models-gpu: on GPUs)
#   artifacts       your models alone, to be mounted as an image volume
#   artifacts-init  your models in /models, to be copied by an init container
#   export          makes artifacts; PyTorch inside
# What with-models, with-models-gpu, artifacts and artifacts-init hold is what `python -m export ${MODELS}` makes:
#   --build-arg MODELS="dates-mlm captions-soft"                                       bundled models
#   --build-arg MODELS=/checkpoint/mine --build-context checkpoint=./folder          ./folder/mine, a checkpoint of yours
# The lock files are for Python 3.11 to 3.14. BASE_IMAGE names what runs, BUILD_IMAGE what installs: the same Python, at
# the same path, and pip. To renew the digest: docker buildx imagetools inspect python:3.12-slim
ARG BASE_IMAGE=python:3.12-slim@sha256:dddfd7e07f9d15aeeca61529320492139d21cac7f0070c00609243e51e4e0016
ARG BUILD_IMAGE=${BASE_IMAGE}

# One virtual environment for each target. It holds no pip: the pip of the base image fills it.
FROM ${BUILD_IMAGE} AS venv
WORKDIR /build
RUN python3 -m venv --without-pip /opt/venv
ENV PIP_ROOT_USER_ACTION=ignore

# --no-deps: the lock is all that is installed, and leaves out what requirements/excludes-*.txt names.
# --only-binary: nothing is compiled and no setup.py runs.
# find: the packages' own tests, 20 MB of numpy's, are of no use here.
# unchecked-hash: files in an image do not change, so the bytecode stays valid whatever happens to file times.
FROM venv AS venv-cpu
COPY requirements/cpu.lock ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes -r cpu.lock \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} + \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib

# CUDA and cuDNN are wheels, pinned in the lock file. So there is no CUDA base image; only the driver comes from the
# host.
FROM venv AS venv-gpu
COPY requirements/gpu.lock ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes -r gpu.lock \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} + \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib

# A folder with a wheel of PyTorch's CPU build, if the build cannot reach PyTorch's own index:
# --build-context wheels=./folder
FROM scratch AS wheels
COPY LICENSE /

# The lock holds everything but torch: the usual index has only its build for GPUs, which requires several gigabytes
# of NVIDIA packages, and an export runs on the CPU. uv knows where PyTorch keeps the CPU builds. Their version is
# pinned; their bytes are if the wheel's hash is given, which differs for each Python: --build-arg TORCH_SHA256=...
# -x: torch's own tests contain files in the syntax of other Python versions.
FROM venv AS venv-export
COPY requirements/export.lock requirements/build.lock requirements/torch.txt ./
RUN python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes -r export.lock
ARG TORCH_SHA256=
RUN --mount=type=bind,from=wheels,target=/wheels \
    sed -i "s/^torch==.*/&${TORCH_SHA256:+ --hash=sha256:${TORCH_SHA256}}/" torch.txt \
    && if ls /wheels/torch-*.whl; then \
         python3 -m pip --python /opt/venv/bin/python install --no-cache-dir --no-compile --no-deps --no-index --find-links /wheels -r torch.txt; \
       else \
         python3 -m pip install --no-cache-dir --only-binary :all: --require-hashes --target /opt/uv -r build.lock \
         && /opt/uv/bin/uv pip install --python /opt/venv/bin/python --no-cache --no-deps --torch-backend cpu -r torch.txt; \
       fi \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} + \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -x torch/testing/_internal /opt/venv/lib

# chmod: the user of the image must be able to read the files, whatever modes the checkout has.
FROM ${BUILD_IMAGE} AS code-serving
WORKDIR /app
COPY contract/ contract/
COPY service/ service/
RUN python3 -m compileall -q --invalidation-mode unchecked-hash . && chmod -R a=rX .

FROM ${BUILD_IMAGE} AS bundled
COPY model/artifacts/ /artifacts/
RUN chmod -R a=rX /artifacts

FROM ${BUILD_IMAGE} AS code-export
WORKDIR /app
COPY contract/ contract/
COPY model/ model/
COPY export/ export/
RUN rm -r model/artifacts \
    && python3 -m compileall -q --invalidation-mode unchecked-hash . && chmod -R a=rX .

# What all images that run Python are made of. The user has a name and a writable home, because libraries need both.
# The user owns /artifacts, because a new volume takes the owner of the folder that it is mounted on.
# No program here needs to become another user, so no file has the setuid or setgid bit. Nothing installs packages here,
# so there is no pip either, and nothing to unpack one from.
FROM ${BASE_IMAGE} AS runtime
RUN groupadd --gid 10001 regard \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin regard \
    && install --directory --owner 10001 --group 10001 /artifacts \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    && if python3 -c 'import pip' 2>/dev/null; then python3 -m pip uninstall --yes --root-user-action=ignore pip setuptools wheel; fi \
    && rm -rf "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/ensurepip"
COPY LICENSE /licenses/LICENSE
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
ARG BASE_IMAGE
ARG VCS_REF=unknown
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="regard" \
      org.opencontainers.image.description="Serves Transformers and Vision Transformers over HTTP and shows what they looked at." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}" \
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

FROM serving AS serving-cpu
COPY --from=venv-cpu /opt/venv /opt/venv
COPY --from=code-serving /app /app

# libcuda comes from NVIDIA's container runtime, which reads the capabilities. Whatever starts the container chooses the
# GPUs; a value here would show every GPU to a container that asked for none.
FROM serving AS serving-gpu
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    REGARD_DEVICE=cuda
COPY --from=venv-gpu /opt/venv /opt/venv
COPY --from=code-serving /app /app

FROM serving-cpu AS cpu
COPY --from=bundled /artifacts /artifacts

FROM serving-gpu AS gpu
COPY --from=bundled /artifacts /artifacts

FROM runtime AS export
LABEL org.opencontainers.image.title="regard-export" \
      org.opencontainers.image.description="Turns PyTorch definitions and their weights into artifacts that regard serves."
COPY --from=venv-export /opt/venv /opt/venv
COPY --from=code-export /app /app
ENTRYPOINT ["python", "-m", "export"]
CMD ["digits", "dates", "--to", "/artifacts"]

# Empty but for the licence, unless --build-context checkpoint=./folder names yours.
FROM scratch AS checkpoint
COPY LICENSE /

# MODELS is not quoted, because it may name several models.
FROM export AS exported
ARG MODELS="digits dates"
# hadolint ignore=SC2086
RUN --mount=type=bind,from=checkpoint,target=/checkpoint \
    python -m export ${MODELS} --to /artifacts && chmod -R a=rX /artifacts

FROM serving-cpu AS with-models
COPY --from=exported /artifacts /artifacts

FROM serving-gpu AS with-models-gpu
COPY --from=exported /artifacts /artifacts

FROM scratch AS artifacts
COPY --from=exported --chown=0:0 /artifacts /

FROM ${BASE_IMAGE} AS artifacts-init
COPY --from=exported --chown=0:0 /artifacts /models
COPY LICENSE /licenses/LICENSE
USER 10001:10001
