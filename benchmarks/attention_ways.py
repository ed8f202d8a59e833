"""Attention of a packed row on a CPU, group by group and in bundles: python benchmarks/attention_ways.py

Prints forward and backward time of one layer of SmolLM2-135M's shape for groups of several sizes, about 2,000 tokens a row. The constants of
src/upsolve/policy/layout.py are derived from it: time per group = overhead + time per score; in bundles only the second term.
"""

import time

import torch

from upsolve.policy.attention import tree_attention
from upsolve.policy.layout import GroupSpan, Layout, bundles

HEADS, KEY_HEADS, SIZE = 9, 3, 64
SHAPES = ((110, 2, 25), (110, 8, 25), (300, 2, 25), (150, 8, 70), (300, 4, 100), (700, 8, 200), (1500, 2, 100))
"""Tokens of the prompt, attempts, tokens of each."""


def seconds_of(layout, length):
    """Return the minimum time of six forward and backward passes, after two for warm-up."""
    query, key, value = (torch.randn(1, length, heads, SIZE, requires_grad=True) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
    times = []
    for _ in range(8):
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            laid = (tensor.transpose(1, 2) for tensor in (query, key, value.bfloat16()))
            out, _ = tree_attention(None, *laid, None, scaling=SIZE**-0.5, layout=layout)
        out.float().sum().backward()
        times.append(time.perf_counter() - started)
    return min(times[2:])


def main():
    """Measure every shape."""
    torch.set_num_threads(1)
    print("prompt  attempts  tokens  groups   by group  in bundles    (ms; one thread)")
    for prompt, attempts, tokens in SHAPES:
        length = prompt + attempts * tokens
        count = max(1, 2000 // length)
        row = [GroupSpan(at * length, prompt, (tokens,) * attempts) for at in range(count)]
        both = (Layout([row], []), Layout([row], bundles([row], length * count, torch.device("cpu"))))
        single, bundled = (1000 * seconds_of(layout, length * count) for layout in both)
        print(f"{prompt:6}  {attempts:8}  {tokens:6}  {count:6}  {single:9.1f}  {bundled:10.1f}")


if __name__ == "__main__":
    main()
