# upsolve with its judge: docker build -t upsolve .        docs/install.md says how to run it, and what the sandbox needs
# With training on CPUs:  docker build -t upsolve --build-arg EXTRAS=all --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu .
FROM debian:bookworm-slim

ARG EXTRAS=analysis,clean,report,serve
# Index of the build of PyTorch; without it PyPI's, which needs an NVIDIA GPU's libraries
ARG TORCH_INDEX=
# Compilers and interpreters of other languages: --build-arg LANGUAGES="g++ default-jdk-headless nodejs"
ARG LANGUAGES=

RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv ${LANGUAGES} \
    && rm -rf /var/lib/apt/lists/*

RUN python3 -m venv /opt/upsolve
ENV PATH=/opt/upsolve/bin:$PATH

COPY pyproject.toml constraints.txt README.pypi.md LICENSE MANIFEST.in /src/
COPY src /src/src
RUN if [ -n "${TORCH_INDEX}" ]; then pip install --no-cache-dir -c /src/constraints.txt torch --index-url "${TORCH_INDEX}"; fi \
    && pip install --no-cache-dir -c /src/constraints.txt "/src[${EXTRAS}]" \
    && rm -rf /src

# The judge gives every attempt a user id of its own where it is root, and drops all rights before an attempt runs
WORKDIR /data
ENTRYPOINT ["upsolve"]
CMD ["doctor"]
