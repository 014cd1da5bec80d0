# SPDX-License-Identifier: GPL-3.0-or-later
# Small checkpoints with latent or sparse attention: as hf_moe.py.
# Usage: hf_latent.py NMBENCH FOLDER [MODEL_TYPE..]
import sys

import numpy as np

from hf_parts import *  # noqa: F403
from tiny_hf import Runner, Weights, frequencies, variants

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def latent(w, x, b, q_rank=10, rank=12, nope=8, rot=4, dv=8, n=4, f=None, size=1.0, scale=None, adjacent=True, eps=1e-6, bias=False,
           mask=None, kv_scale=1.0, q_scale=1.0):
    """Multi-head latent attention as DeepSeek-V3's code has it; also the latent of the queries."""
    b += '.self_attn'
    f = freqs(rot, 1e4) if f is None else f
    c = x
    if q_rank:
        c = w.rms(w.lin(x, f'{b}.q_a_proj', q_rank, bias), f'{b}.q_a_layernorm', eps)
    q = heads(w.lin(c, f'{b}.q_b_proj' if q_rank else f'{b}.q_proj', n * (nope + rot)), nope + rot) * q_scale
    kv = w.lin(x, f'{b}.kv_a_proj_with_mqa', rank + rot, bias)
    kr = rotate(heads(kv[:, rank:], rot), f, size, adjacent)
    up = heads(w.lin(w.rms(kv[:, :rank], f'{b}.kv_a_layernorm', eps) * kv_scale, f'{b}.kv_b_proj', n * (nope + dv)), nope + dv)
    q = np.concatenate([q[..., :nope], rotate(q[..., nope:], f, size, adjacent)], -1)
    k = np.concatenate([up[..., :nope], kr.repeat(n, 1)], -1)
    y = attend(q, k, up[..., nope:], scale=scale or (nope + rot)**-0.5, mask=mask(x, c, b) if mask else None)
    return w.lin(y, f'{b}.o_proj', x.shape[-1], bias)


LATENT = dict(q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
MOE = dict(num_hidden_layers=3, n_routed_experts=8, moe_intermediate_size=WIDE, num_experts_per_tok=3, first_k_dense_replace=1)
YARN = dict(type='yarn', factor=40, original_max_position_embeddings=16, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707)


def yarn_of(y):
    f, size = frequencies(4, 1e4, y)
    m = 0.1 * y['mscale_all_dim'] * np.log(y['factor']) + 1
    return dict(f=f, size=size, scale=12**-0.5 * m * m)


def v2_net(w, groups=1, keep=1, scale=1.0, shared=2):
    def network(x, b, i):
        b += '.mlp'
        if i == 0:
            return mlp(w, x, b, FF)
        s = softmax(w.lin(x, f'{b}.gate', 8))
        c = s
        if groups > 1:
            mask = spread(top(s.reshape(T, groups, -1).max(-1), keep), np.ones((T, keep)), groups)
            c = s * mask.repeat(8 // groups, -1)
        j = top(c, 3)
        return mix(x, spread(j, take(s, j) * scale, 8), each(w, f'{b}.experts', WIDE)) + mlp(w, x, f'{b}.shared_experts', shared * WIDE)
    return network


V2 = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None, attention_bias=False,
          n_shared_experts=2, routed_scaling_factor=1.0, topk_method='greedy', n_group=None, topk_group=None, norm_topk_prob=False,
          moe_layer_freq=1, ep_size=1, scoring_func='softmax', aux_loss_alpha=0.001, seq_aux=True, pretraining_tp=1,
          moe_intermediate_size=1407, n_routed_experts=64, num_experts_per_tok=None, first_k_dense_replace=0)


@case
def deepseek_v2(w):
    y = pre(w, 3, lambda x, b, i: latent(w, x, b, **yarn_of(YARN)), v2_net(w, 4, 2, 16.0), 1e-6)
    return variants('deepseek_v2', 'DeepseekV2ForCausalLM', V2,
                    dict(SIZES, **LATENT, **MOE, num_key_value_heads=4, rope_scaling=YARN, topk_method='group_limited_greedy', n_group=4,
                         topk_group=2, routed_scaling_factor=16.0)), y


@case
def deepseek_v2_lite(w):
    y = pre(w, 3, lambda x, b, i: latent(w, x, b, q_rank=0), v2_net(w), 1e-6)
    return variants('deepseek_v2', 'DeepseekV2ForCausalLM', V2, dict(SIZES, **LATENT, **MOE, num_key_value_heads=4) |
                    dict(q_lora_rank=None)), y


V3 = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None, attention_bias=False,
          n_shared_experts=1, n_routed_experts=256, routed_scaling_factor=2.5, kv_lora_rank=512, q_lora_rank=1536, n_group=8,
          topk_group=4, num_experts_per_tok=8, first_k_dense_replace=3, norm_topk_prob=True, rope_interleave=True,
          moe_intermediate_size=2048, pretraining_tp=1, ep_size=1, moe_layer_freq=1, num_nextn_predict_layers=1, scoring_func='sigmoid',
          topk_method='noaux_tc')


def v3_net(w, groups=4, keep=2, scale=2.5, dense=1):
    def network(x, b, i):
        b += '.mlp'
        if i < dense:
            return mlp(w, x, b, FF)
        g = noaux(w.lin(x, f'{b}.gate', 8), w(f'{b}.gate.e_score_correction_bias', 8, size=0.05), 3, True, scale, groups, keep)
        return mix(x, g, each(w, f'{b}.experts', WIDE)) + mlp(w, x, f'{b}.shared_experts', WIDE)
    return network


V3_GIVEN = dict(SIZES, **LATENT, **MOE, num_key_value_heads=4, n_group=4, topk_group=2)


@case
def deepseek_v3(w):
    yarn = dict(YARN, mscale=1.0, mscale_all_dim=1.0)
    y = pre(w, 3, lambda x, b, i: latent(w, x, b, bias=True, **yarn_of(yarn)), v3_net(w), 1e-6)
    return variants('deepseek_v3', 'DeepseekV3ForCausalLM', V3, dict(V3_GIVEN, rope_scaling=yarn, attention_bias=True)), y


@case
def deepseek_v3_plain(w):
    y = pre(w, 4, lambda x, b, i: latent(w, x, b, q_rank=0, adjacent=False), v3_net(w, dense=3), 1e-6)
    return variants('deepseek_v3', 'DeepseekV3ForCausalLM', V3,
                    {k: v for k, v in V3_GIVEN.items() if k != 'first_k_dense_replace'} |
                    dict(q_lora_rank=None, rope_interleave=False, num_hidden_layers=4)), y


@case
def kimi_k2(w):
    y = pre(w, 3, lambda x, b, i: latent(w, x, b, f=freqs(4, 5e4)), v3_net(w, 1, 1, 2.827), 1e-6)
    return variants('kimi_k2', 'DeepseekV3ForCausalLM', V3, dict(V3_GIVEN, n_group=1, topk_group=1, routed_scaling_factor=2.827,
                                                                 rope_theta=5e4, num_nextn_predict_layers=0)), y


def indexer(w, f, adjacent, n=2, d=8, k=4):
    """The keys that DeepSeek-V3.2's small heads choose for each token."""
    def mask(x, c, b):
        b += '.indexer'
        q = rotate(heads(w.lin(c, f'{b}.wq_b', n * d), d), f, adjacent=adjacent)
        key = rotate(w.layer(w.lin(x, f'{b}.wk', d), f'{b}.k_norm', 1e-6)[:, None], f, adjacent=adjacent)[:, 0]
        s = np.maximum(np.einsum('thd,sd->ths', q, key) * d**-0.5, 0)
        s = np.einsum('ths,th->ts', s, w.lin(x, f'{b}.weights_proj', n)) * n**-0.5 + causal(T)
        j = top(s, min(k, T))
        return np.where(spread(j, np.ones(j.shape), T) > 0, 0, -np.inf) + causal(T)
    return mask


INDEX = dict(index_n_heads=2, index_head_dim=8, index_topk=4)


@case
def deepseek_v32(w):
    f = freqs(4, 1e4)
    y = pre(w, 3, lambda x, b, i: latent(w, x, b, f=f, mask=indexer(w, f, False)), v3_net(w), 1e-6)
    return variants('deepseek_v32', 'DeepseekV32ForCausalLM', dict(V3, index_n_heads=64, index_head_dim=128, index_topk=2048),
                    dict(V3_GIVEN, **INDEX)), y


@case
def glm_moe_dsa(w):
    f, kept = freqs(4, 1e6), {}

    def attn(x, b, i):
        def mask(x, c, name):
            if i != 2:
                kept[0] = indexer(w, f, True)(x, c, name)
            return kept[0]
        return latent(w, x, b, f=f, mask=mask)
    y = pre(w, 3, attn, v3_net(w, 1, 1), 1e-5)
    c = variants('glm_moe_dsa', 'GlmMoeDsaForCausalLM',
                 {k: v for k, v in V3.items() if k not in ('n_group', 'topk_group', 'rms_norm_eps', 'q_lora_rank')} |
                 dict(n_group=1, topk_group=1, rms_norm_eps=1e-5, q_lora_rank=2048, index_n_heads=32, index_head_dim=128,
                      index_topk=2048, indexer_rope_interleave=True),
                 {k: v for k, v in V3_GIVEN.items() if k not in ('n_group', 'topk_group')} |
                 dict(INDEX, rope_theta=1e6, indexer_types=['full', 'full', 'shared']))
    c['pattern'] = {k: v for k, v in c['saved'].items() if k != 'indexer_types'} | dict(index_topk_pattern='FFS')
    c['words'] = {k: v for k, v in c['saved'].items() if k != 'first_k_dense_replace'} | dict(
        mlp_layer_types=['dense', 'sparse', 'sparse'])
    return c, y


@case
def glm4_moe_lite(w):
    y = pre(w, 3, lambda x, b, i: latent(w, x, b), v3_net(w, 1, 1, 1.8), 1e-5)
    return variants('glm4_moe_lite', 'Glm4MoeLiteForCausalLM',
                    {k: v for k, v in V3.items() if k not in ('first_k_dense_replace',)} |
                    dict(n_group=1, topk_group=1, rms_norm_eps=1e-5, q_lora_rank=768, n_routed_experts=64, routed_scaling_factor=1.8,
                         num_experts_per_tok=4, moe_intermediate_size=1536, num_nextn_predict_layers=0),
                    {k: v for k, v in V3_GIVEN.items() if k not in ('n_group', 'topk_group', 'first_k_dense_replace')} |
                    dict(mlp_layer_types=['dense', 'sparse', 'sparse'])), y


@case
def youtu(w):
    y = pre(w, 2, lambda x, b, i: latent(w, x, b), lambda x, b, i: mlp(w, x, f'{b}.mlp', FF), 1e-6, tied=True)
    return variants('youtu', 'YoutuForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=True, rope_scaling=None, attention_bias=False,
                         rope_interleave=True, mlp_bias=False),
                    dict(SIZES, **LATENT, num_key_value_heads=4, num_hidden_layers=2, rope_theta=1e4)), y


@case
def minicpm3(w):
    L, s = 3, {'type': 'longrope', 'long_factor': [1.5, 2.5], 'short_factor': [1.0, 2.0], 'original_max_position_embeddings': 32}
    f, size = frequencies(4, 1e4, s, 64)
    y = pre(w, L, lambda x, b, i: latent(w, x, b, f=f, size=size, adjacent=False), lambda x, b, i: mlp(w, x, f'{b}.mlp', FF), 1e-5,
            tied=True, scale=12, residual=1.4 / L**0.5) / (H / 16)
    return variants('minicpm3', 'MiniCPM3ForCausalLM',
                    dict(hidden_act='silu', tie_word_embeddings=True, rope_theta=1e4, attention_bias=False, pretraining_tp=1),
                    dict(SIZES, **{k: v for k, v in LATENT.items() if k != 'v_head_dim'}, num_key_value_heads=4, num_hidden_layers=L,
                         rms_norm_eps=1e-5, rope_scaling=s, scale_emb=12, dim_model_base=16, scale_depth=1.4), False), y


# ---------------------------------------------------------------- DeepSeek-V4
def v4_turn(x, f, size=1.0, back=False):
    """x [T, heads, d]: the last 2 * len(f) components, by pairs."""
    n = 2 * len(f)
    return np.concatenate([x[..., :-n], rotate(x[..., -n:], -f if back else f, size, True)], -1)


def v4_pools(w, x, b, every, d, f, overlap, size=1.0):
    """Rows that stand for `every` positions each."""
    n = 2 * d if overlap else d
    kv, gate = w.lin(x, f'{b}.wkv', n), w.lin(x, f'{b}.wgate', n)
    P = T // every
    kv, gate = (a[:P * every].reshape(P, every, n) for a in (kv, gate))
    gate = gate + w(f'{b}.ape', every, n, size=0.5)
    if overlap:
        before = np.concatenate([np.zeros((1, every, d)), kv[:-1, :, :d]]), np.concatenate(
            [np.full((1, every, d), -np.inf), gate[:-1, :, :d]])
        kv = np.concatenate([before[0], kv[..., d:]], 1)
        gate = np.concatenate([before[1], gate[..., d:]], 1)
    p = np.exp(gate - gate.max(1, keepdims=True))
    rows = w.rms((kv * p / p.sum(1, keepdims=True)).sum(1), f'{b}.norm', 1e-6)
    wide = np.zeros((P * every, 1, d))
    wide[::every, 0] = rows
    return v4_turn(wide, f, size)[::every, 0]


def v4_attention(w, x, b, every, main, far, size, n=4, d=16, window=5):
    b += '.attn'
    f, size = (far, size) if every else (main, 1.0)
    c = w.rms(w.lin(x, f'{b}.wq_a', 10), f'{b}.q_norm', 1e-6)
    q = v4_turn(rms(heads(w.lin(c, f'{b}.wq_b', n * d), d), 1e-6), f, size)
    kv = v4_turn(w.rms(w.lin(x, f'{b}.wkv', d), f'{b}.kv_norm', 1e-6)[:, None], f, size)[:, 0]
    mask = causal(T, window)
    if every:
        rows = v4_pools(w, x, f'{b}.compressor', every, d, f, every == 4, size)
        P = len(rows)
        seen = np.arange(P)[None] < (np.arange(T)[:, None] + 1) // every
        if every == 4:
            keys = v4_pools(w, x, f'{b}.indexer.compressor', every, 8, f, True, size)
            iq = v4_turn(heads(w.lin(c, f'{b}.indexer.wq_b', 16), 8), f, size)
            s = np.maximum(np.einsum('thd,pd->thp', iq, keys), 0) * 8**-0.5
            s = np.einsum('thp,th->tp', s, w.lin(x, f'{b}.indexer.weights_proj', 2)) * 2**-0.5
            j = top(np.where(seen, s, -np.inf), 1)
            seen = seen & (spread(j, np.ones(j.shape), P) > 0)
        kv, mask = np.concatenate([kv, rows]), np.concatenate([mask, np.where(seen, 0, -np.inf)], 1)
    s = np.einsum('thd,sd->hts', q, kv) * d**-0.5 + mask
    s = np.concatenate([s, w(f'{b}.attn_sink', n)[:, None, None].repeat(T, 1)], -1)
    y = v4_turn(np.einsum('hts,sd->thd', softmax(s)[..., :-1], kv), f, size, True).reshape(T, 2, 2 * d)
    o = w(f'{b}.wo_a.weight', 12, 2 * d).reshape(2, 6, 2 * d)
    return w.lin(np.einsum('tgn,grn->tgr', y, o).reshape(T, 12), f'{b}.wo_b', H)


def v4_streams(w, h, name, part):
    """Manifold-constrained hyper-connections around a part; h [T, streams, H]."""
    n = h.shape[1]
    x = rms(h.reshape(T, -1), 1e-6) @ w(f'{name}_fn', (2 + n) * n, n * H).T
    base, scale = w(f'{name}_base', (2 + n) * n, size=0.5), w(f'{name}_scale', 3, size=0.3, around=1)
    a = sigmoid(x[:, :n] * scale[0] + base[:n]) + 1e-6
    z = 2 * sigmoid(x[:, n:2 * n] * scale[1] + base[n:2 * n])
    m = softmax((x[:, 2 * n:] * scale[2] + base[2 * n:]).reshape(T, n, n)) + 1e-6
    m = m / (m.sum(-2, keepdims=True) + 1e-6)
    for _ in range(19):
        m = m / (m.sum(-1, keepdims=True) + 1e-6)
        m = m / (m.sum(-2, keepdims=True) + 1e-6)
    y = part((a[..., None] * h).sum(1))
    return z[..., None] * y[:, None] + np.einsum('tij,tih->tjh', m, h)


@case
def deepseek_v4(w):
    ratios, limit, n = [0, 4, 3, 0], 1.0, 2
    main, (far, _) = freqs(4, 1e4), frequencies(4, 160000, dict(YARN, factor=16))
    table = np.random.default_rng(5).permuted(np.tile(np.arange(6), (VOCAB, 1)), axis=1)[:, :3]

    def net(x, name):
        g, u = np.minimum(w.lin(x, f'{name}.w1', WIDE), limit), np.clip(w.lin(x, f'{name}.w3', WIDE), -limit, limit)
        return w.lin(ACT['silu'](g) * u, f'{name}.w2', H)

    def network(x, b, i):
        b += '.ffn'
        s = np.sqrt(np.log1p(np.exp(w.lin(x, f'{b}.gate', 6))))
        if i == 0:
            w.raw(f'{b}.gate.tid2eid', 'I64', table.astype('<i8'))
            j = table[TOKENS]
        else:
            j = top(s + w(f'{b}.gate.bias', 6, size=0.3), 3)
        g = take(s, j)
        y = mix(x, spread(j, 1.5 * g / g.sum(-1, keepdims=True), 6), lambda e, x: net(x, f'{b}.experts.{e}'))
        return y + net(x, f'{b}.shared_experts')
    h = w.embed('embed', TOKENS, H, size=1.0)[:, None].repeat(n, 1)
    for i, every in enumerate(ratios):
        b = f'layers.{i}'
        h = v4_streams(w, h, f'{b}.hc_attn', lambda x: v4_attention(w, w.rms(x, f'{b}.attn_norm', 1e-6), b, every, main, far, 1.0))
        h = v4_streams(w, h, f'{b}.hc_ffn', lambda x: network(w.rms(x, f'{b}.ffn_norm', 1e-6), b, i))
    a = sigmoid(rms(h.reshape(T, -1), 1e-6) @ w('hc_head_fn', n, n * H).T * w('hc_head_scale', 1, around=1) + w('hc_head_base', n)) + 1e-6
    y = w.lin(w.rms((a[..., None] * h).sum(1), 'norm', 1e-6), 'head', VOCAB)
    given = dict(SIZES, num_hidden_layers=4, num_key_value_heads=1, head_dim=16, q_lora_rank=10, qk_rope_head_dim=4, o_groups=2,
                 o_lora_rank=6, compress_ratios=ratios, sliding_window=5, index_n_heads=2, index_head_dim=8, index_topk=1, hc_mult=n,
                 num_hash_layers=1, moe_intermediate_size=WIDE, n_routed_experts=6, num_experts_per_tok=3, swiglu_limit=limit,
                 rope_scaling={k: v for k, v in dict(YARN, factor=16).items() if k[:2] != 'ms'}, rope_theta=1e4,
                 compress_rope_theta=160000)
    del given['intermediate_size']
    return variants('deepseek_v4', 'DeepseekV4ForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, attention_bias=False, n_shared_experts=1,
                         hc_sinkhorn_iters=20, hc_eps=1e-6, scoring_func='sqrtsoftplus', topk_method='noaux_tc', norm_topk_prob=True,
                         routed_scaling_factor=1.5, num_nextn_predict_layers=1), given, False), y


@case
def minimax_m3(w):
    """Each head of an indexer chooses blocks of keys for a KV head (model card, vLLM's code)."""
    f, block, topk = freqs(4, 5e6), 2, 2

    def norm(x, name):
        return w.rms(x, name, 1e-6, 1)

    def chosen(x, b):
        q = rotate(norm(heads(w.lin(x, f'{b}.index_q_proj', 16), 8), f'{b}.index_q_norm'), f)
        k = rotate(norm(heads(w.lin(x, f'{b}.index_k_proj', 8), 8), f'{b}.index_k_norm'), f)[:, 0]
        s = np.einsum('thd,sd->hts', q, k) * 8**-0.5 + causal(T)
        s = np.concatenate([s, np.full((2, T, -T % block), -np.inf)], -1).reshape(2, T, -1, block).max(-1)
        own = np.arange(s.shape[-1])[None] == np.arange(T)[:, None] // block
        j = top(np.where(own, np.inf, s), topk)
        return np.where(spread_last(j, s.shape[-1]).repeat(block, -1)[..., :T], 0, -np.inf) + causal(T)

    def spread_last(j, n):
        out = np.zeros((*j.shape[:-1], n), bool)
        np.put_along_axis(out, j, True, -1)
        return out

    def attn(x, b, i):
        b += '.self_attn'
        q, k, v = (heads(w.lin(x, f'{b}.{c}_proj', n * 8), 8) for c, n in (('q', 4), ('k', 2), ('v', 2)))
        q, k = rotate(norm(q, f'{b}.q_norm'), f), rotate(norm(k, f'{b}.k_norm'), f)
        return w.lin(attend(q, k, v, mask=chosen(x, b).repeat(2, 0) if i else None), f'{b}.o_proj', H)

    def net(x, name, n, gate='gate_proj', up='up_proj', down='down_proj'):
        g, u = np.minimum(w.lin(x, f'{name}.{gate}', n), 1.0), np.clip(w.lin(x, f'{name}.{up}', n), -1, 1)
        return w.lin((u + 1) * g * sigmoid(1.702 * g), f'{name}.{down}', H)

    def network(x, b, i):
        if i == 0:
            return net(x, f'{b}.mlp', FF)
        b += '.block_sparse_moe'
        g = noaux(w.lin(x, f'{b}.gate', 6), w(f'{b}.e_score_correction_bias', 6, size=0.1), 3, scale=2.0)
        return (mix(x, g, lambda e, x: net(x, f'{b}.experts.{e}', WIDE, 'w1', 'w3', 'w2')) +
                net(x, f'{b}.shared_experts', WIDE))
    y = pre(w, 3, attn, network, 1e-6, norm)
    return variants('minimax_m3', 'MiniMaxM3ForCausalLM',
                    dict(tie_word_embeddings=False, rms_norm_eps=1e-6, swiglu_alpha=1.702, use_gemma_norm=True, use_qk_norm=True,
                         qk_norm_type='per_head', attention_output_gate=False, use_routing_bias=True, scoring_func='sigmoid',
                         n_shared_experts=1, num_nextn_predict_layers=1, num_mtp_modules=7),
                    dict(SIZES, num_hidden_layers=3, head_dim=8, hidden_act='swigluoai', swiglu_limit=1.0, rotary_dim=4,
                         partial_rotary_factor=0.5, rope_theta=5e6, intermediate_size=WIDE, dense_intermediate_size=FF,
                         moe_intermediate_size=WIDE, shared_intermediate_size=WIDE, num_local_experts=6, num_experts_per_tok=3,
                         routed_scaling_factor=2.0, moe_layer_freq=[0, 1, 1],
                         sparse_attention_config=dict(use_sparse_attention=True, sparse_attention_freq=[0, 1, 1], sparse_index_dim=8,
                                                      sparse_num_index_heads=2, sparse_topk_blocks=topk, sparse_block_size=block,
                                                      sparse_disable_index_value=[0, 1, 1], sparse_score_type='max',
                                                      sparse_init_block=0, sparse_local_block=1)), False), y


if __name__ == '__main__':
    sys.exit(run(sys.argv, CASES, Runner, Weights))
