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

# Dependencies are a layer of their own: an empty package with our pyproject.toml requires them, and a change in src/ leaves them installed
COPY pyproject.toml constraints.txt README.pypi.md LICENSE MANIFEST.in /src/
RUN mkdir -p /src/src/upsolve && echo '__version__ = "0"' > /src/src/upsolve/__init__.py \
    && if [ -n "${TORCH_INDEX}" ]; then pip install --no-cache-dir -c /src/constraints.txt torch --index-url "${TORCH_INDEX}"; fi \
    && pip install --no-cache-dir -c /src/constraints.txt "/src[${EXTRAS}]" \
    && rm -rf /src/build /src/src
COPY src /src/src
RUN pip install --no-cache-dir --no-deps --force-reinstall /src

# Converted models, verdicts and indexes outlive a container in a volume: docker run -v upsolve-cache:/cache
ENV UPSOLVE_CACHE=/cache
RUN mkdir -m 1777 /cache
VOLUME ["/cache"]

# Of the service (upsolve verify --serve) on its port 8000; a container that runs another command is healthy while it runs
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import pathlib, urllib.request; b'--serve' not in pathlib.Path('/proc/1/cmdline').read_bytes() or urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]

# The judge gives every attempt a user id of its own where it is root, and drops all rights before an attempt runs
WORKDIR /data
ENTRYPOINT ["upsolve"]
CMD ["doctor"]
