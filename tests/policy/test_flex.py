"""FlexAttention, here by its uncompiled form; on GPUs it is compiled."""

import pytest
import torch

from upsolve.policy.attention.gpu import block_mask, flex


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_queries_and_keys_left_in_float32_by_autocast_are_cast_to_the_values(dtype):
    """Two attempts of two tokens at a prompt of two: token 4 sees 0, 1 and itself, 5 sees 0, 1, 4, 5."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 6, 16, generator=generator) for heads in (4, 2, 2))
    group, attempt = torch.zeros(1, 6, dtype=torch.long), torch.tensor([[0, 0, 1, 1, 2, 2]])
    mask = block_mask(group, attempt, torch.tensor([[0, 1, 2, 3, 2, 3]]), prefix_BL=torch.full_like(group, -2), window=None)
    out, _ = flex(torch.nn.Module(), query, key, value.to(dtype), mask, scaling=0.25)
    assert out.dtype == dtype and out.shape == (1, 6, 4, 16)
    seen = torch.tensor([[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0],
                         [1, 1, 0, 0, 1, 1]], dtype=torch.bool)  # fmt: skip
    scores = 0.25 * query @ key.repeat_interleave(2, 1).transpose(-1, -2)
    expected = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value.repeat_interleave(2, 1)
    assert torch.allclose(out.float(), expected.transpose(1, 2), atol=1e-5 if dtype == torch.float32 else 0.03)
