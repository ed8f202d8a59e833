"""Packed rows against padded texts: same log-probabilities and gradients for every layout."""

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from upsolve.config import AdvantageConfig, DataConfig, ObjectiveConfig, OptimConfig, Recipe
from upsolve.policy.attention.bundled import TREE
from upsolve.policy.head import head_of
from upsolve.policy.model import load_codec, load_model
from upsolve.reward.formula import Rewarded
from upsolve.train.data.encode import EncodedAttempt, EncodedGroup, Encoding, encode_groups, tokenize_groups
from upsolve.train.data.pack import fit_rows, level_rows, pack, plan_steps
from upsolve.train.run.steps import learning_rate
from upsolve.train.update.head_scores import HeadGradient, tied_embedding
from upsolve.train.update.logprobs import token_scores
from upsolve.train.update.step import FrozenScores, sum_gradients
from upsolve.types import Attempt, Group, Status, Task, Verdict


def groups(count=3, size=3):
    made = []
    for g in range(count):
        task = Task(f"t{g}", "say " * (g + 1))
        attempts = tuple(Attempt(task.task_id, f"x = {'1' * (i + g + 1)}") for i in range(size))
        verdicts = tuple(Verdict(a.attempt_id, Status.PASSED if i == 0 else Status.FAILED) for i, a in enumerate(attempts))
        rewards = np.array([1.0, -0.1, -0.6][:size])
        made.append(Rewarded(Group(task, attempts, verdicts), rewards, ((),) * size, Counter(), Counter()))
    return made


def encoding(codec, objective=None, **data):
    recipe = Recipe(data=DataConfig(**data), objective=objective or ObjectiveConfig())
    return Encoding(codec, recipe.data.max_tokens, recipe.reward, AdvantageConfig(kind="centred"), recipe.objective)


def encoded(codec, objective=None):
    return encode(groups(), encoding(codec, objective)).groups


def encode(groups, config):
    return encode_groups(tokenize_groups(groups, config), config)


def plain_logps(model, prompt, completion):
    """One sequence, no packing, the model's own attention and head."""
    ids = torch.tensor([[*prompt, *completion]])
    logp = model(ids).logits.float().log_softmax(-1)
    return torch.stack([logp[0, len(prompt) - 1 + i, token] for i, token in enumerate(completion)])


@pytest.mark.parametrize("own_attention", [False, True])
def test_packed_scores_equal_plain_ones(tiny_model, own_attention):
    codec, model = load_codec(tiny_model), load_model(tiny_model)
    items = encoded(codec)
    plain = [plain_logps(model, g.prompt_P, one.ids_R) for g in items for one in g.attempts]
    if own_attention:
        model.set_attn_implementation(TREE)
    scores = token_scores(model, pack([items[:2], items[2:]]))
    assert torch.allclose(scores.logp_T, torch.cat(plain), atol=1e-5)


def compare_gradients(folder, items, batches):
    """Compare the gradients of packed batches, added up, with those of plain texts."""
    packed, plain = load_model(folder), load_model(folder)
    packed.set_attn_implementation(TREE)
    for part in batches:
        token_scores(packed, pack([part])).logp_T.sum().backward()
    sum(plain_logps(plain, g.prompt_P, one.ids_R).sum() for g in items for one in g.attempts).backward()
    for (name, a), (_, b) in zip(packed.named_parameters(), plain.named_parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=2e-4, rtol=1e-3), name


def test_packed_gradients_equal_plain_ones(tiny_model):
    items = encoded(load_codec(tiny_model))
    compare_gradients(tiny_model, items, [items])


@pytest.mark.parametrize("padding", [False, True])
def test_the_gradient_of_a_tied_embedding_is_added_to_that_of_the_head(tiny_model, tmp_path, monkeypatch, padding):
    """Rows of the padding id have no gradient from the embedding, also where it occurs in a text."""
    items = encoded(load_codec(tiny_model))
    pad = int(items[0].prompt_P[0]) if padding else None
    config = LlamaConfig.from_pretrained(tiny_model, tie_word_embeddings=True, pad_token_id=pad)
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    taken, take = [], HeadGradient.take
    monkeypatch.setattr(HeadGradient, "take", lambda shared: taken.append(take(shared)) or taken[-1])
    compare_gradients(tmp_path, items, [items[:2], items[2:]])
    assert [gradient.shape[0] for gradient in taken] == [config.vocab_size] * 2


def test_a_tied_embedding_has_a_gradient_without_the_head(tiny_model, tmp_path):
    LlamaForCausalLM(LlamaConfig.from_pretrained(tiny_model, tie_word_embeddings=True)).save_pretrained(tmp_path)
    model, ids = load_model(tmp_path), torch.tensor([[3, 5, 3]])
    with tied_embedding(model, head_of(model)):
        model.get_input_embeddings()(ids).sum().backward()
    assert model.lm_head.weight.grad[:6, 0].tolist() == [0, 0, 0, 2, 0, 1]
    assert "forward" not in vars(model.get_input_embeddings())


def test_entropy_and_variance_are_those_of_the_logits(tiny_model):
    codec, model = load_codec(tiny_model), load_model(tiny_model)
    items = encoded(codec)[:1]
    scores = token_scores(model, pack([items]))
    prompt, completion = items[0].prompt_P, items[0].attempts[0].ids_R
    logits = model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1].float()
    assert scores.entropy_T[0].item() == pytest.approx(
        torch.distributions.Categorical(logits=logits).entropy().item(), abs=1e-5
    )
    assert scores.logit_variance_T[0].item() == pytest.approx(logits.var(correction=0).item(), rel=1e-3)


@pytest.mark.parametrize("reduce", ["sequence_sum", "sequence_mean", "token_mean", "constant_length"])
@pytest.mark.parametrize("kind", ["reinforce", "dft", "dro", "oapl", "topr"])
def test_many_batches_give_the_gradient_of_one(tiny_model, reduce, kind):
    codec = load_codec(tiny_model)
    config = ObjectiveConfig(kind=kind, reduce=reduce)
    items = encoded(codec, config)
    layouts = ([[items]], [[[items[0]], [items[1]]], [[items[2]]]])
    grads = []
    for layout in layouts:
        model = load_model(tiny_model)
        reference = {}
        for rows in layout:
            batch = pack(rows)
            sizes = np.cumsum(np.bincount(batch.attempt_T))[:-1]
            reference |= zip(batch.keys, np.split(np.full(len(batch.target_T), -5.5, dtype=np.float32), sizes), strict=True)
        sum_gradients(
            partial(token_scores, model),
            [pack(rows) for rows in layout],
            config,
            frozen=FrozenScores(reference=reference),
            backward=lambda loss: loss.backward(),
        )
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(grads[0], grads[1], atol=1e-5, rtol=1e-3)


def test_over_long_attempts_are_left_out_and_counted(tiny_model):
    codec = load_codec(tiny_model)
    codes = [a.code for a in groups(1)[0].group.attempts]
    short, middle, long = (len(codec.prompt(Task("t0", "say ")).ids_P) + len(codec.completion(code)) for code in codes)
    assert short < middle < long
    kept, why, _ = encode(groups(1), encoding(codec, max_tokens=middle))
    assert why == {"attempts: over max_tokens": 1} and len(kept[0].attempts) == 2


def test_an_attempt_that_was_cut_does_not_learn_to_close(tiny_model):
    codec = load_codec(tiny_model)
    group = groups(1)[0]
    cut = tuple(replace(attempt, truncated=True) for attempt in group.group.attempts)
    items, *_ = encode([replace(group, group=replace(group.group, attempts=cut))], encoding(codec))
    texts = [codec.tokenizer.decode(one.ids_R) for one in items[0].attempts]
    assert texts == [attempt.code for attempt in cut]
    assert all(codec.tokenizer.decode(one.ids_R).endswith("\n```") for one in encoded(codec)[0].attempts)


def test_a_step_can_be_sized_by_attempts():
    def item(number, attempts, zeros=0, count=1):
        prompt = (*range(60), number)  # beginnings that are packed together do not change the steps
        made = tuple(EncodedAttempt((number, i), np.ones(2, dtype=np.float32), count=count) for i in range(attempts))
        return EncodedGroup(prompt, made, zeros, 2 * zeros)

    items = [item(1, 4), item(2, 2, zeros=2), item(3, 1, count=4), item(4, 3), item(5, 1), item(6, 9), item(7, 1)]
    steps = plan_steps(items, OptimConfig(attempts_per_step=8, tokens_per_batch=64))
    groups_of = [
        [{key for batch in step for key in batch.keys} & {*items[i].attempt_keys()} != set() for i in range(7)]
        for step in steps
    ]
    assert [[i + 1 for i, there in enumerate(row) if there] for row in groups_of] == [[1, 2], [3, 4, 5], [6], [7]]
    assert max(sum(int(batch.count_S.sum()) + batch.zero_attempts for batch in step) for step in steps) == 9


def test_nothing_is_lost_in_planning(tiny_model):
    items = encoded(load_codec(tiny_model))
    steps = plan_steps(items, OptimConfig(tokens_per_step=120, tokens_per_batch=64, row_tokens=64))
    keys = sorted(key for step in steps for batch in step for key in batch.keys)
    assert keys == sorted(key for g in items for key in g.attempt_keys())
    for processes in (1, 2, 3):
        steps = plan_steps(items, OptimConfig(tokens_per_step=300, tokens_per_batch=200), processes=processes)
        assert sorted(key for step in steps for batch in step for key in batch.keys) == keys
        assert all((batch.group_BL >= 0).all() for step in steps for batch in step), "no padding"
    rows = fit_rows(items, 10_000)
    assert len(rows) == 1 and len(rows[0]) == 3


def test_rows_are_level_and_as_many_for_every_process():
    def group(tokens):
        return EncodedGroup((1,) * (tokens - 1), (EncodedAttempt((2,), np.ones(1, np.float32)),))

    # 90 tokens, 40 at most: three rows; longest first, each into the shortest: 20+9, 15+9+4+4, 12+10+7
    rows = level_rows([group(n) for n in (4, 20, 9, 12, 7, 15, 9, 10, 4)], 40, 1)
    assert sorted([sorted(g.tokens for g in row) for row in rows]) == [[4, 4, 9, 15], [7, 10, 12], [9, 20]]
    assert len(level_rows([group(n) for n in (9, 9, 9, 9, 9)], 40, 2)) == 2
    assert [[g.tokens for g in row] for row in level_rows([group(3), group(100), group(3)], 60, 1)] == [[100], [3, 3]]


def test_equal_attempts_are_read_once_and_count_as_many(tiny_model):
    codec = load_codec(tiny_model)
    one = groups(1, 3)[0]
    copied = one.part([0, 1, 2, 1])
    config = ObjectiveConfig(reduce="token_mean")
    merged, *_ = encode([copied], encoding(codec))
    assert [attempt.count for attempt in merged[0].attempts] == [1, 2, 1]
    apart = [replace(merged[0], attempts=(*(replace(a, count=1) for a in merged[0].attempts),)), merged[0]]
    apart[1] = replace(merged[0], attempts=(replace(merged[0].attempts[1], count=1),))
    grads = []
    for layout in ([merged], [apart]):
        model = load_model(tiny_model)
        batches = [pack([row]) for row in layout]
        sum_gradients(partial(token_scores, model), batches, config, backward=lambda loss: loss.backward())
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(grads[0], grads[1], atol=1e-6, rtol=1e-4)


def test_learning_rate_by_hand():
    optim = OptimConfig(lr=1.0, warmup=0.2, schedule="linear")
    # 10 steps, 2 of warm-up: 1/3, 2/3, then from 1 down by 1/8
    assert [round(learning_rate(i, 10, optim), 4) for i in (0, 1, 2, 6, 9)] == [0.3333, 0.6667, 1.0, 0.5, 0.125]
