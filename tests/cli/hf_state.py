# SPDX-License-Identifier: GPL-3.0-or-later
# Small checkpoints of state-space, linear-attention and convolutional models: as hf_moe.py.
# Usage: hf_state.py NMBENCH FOLDER [MODEL_TYPE..]
import sys

import numpy as np

from hf_parts import *  # noqa: F403
from tiny_hf import Runner, Weights, softplus, variants

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def silu(x):
    return x * sigmoid(x)


def conv(w, x, name, taps=4, bias=True, act=silu, cut=None):
    """Causal, each channel on its own: weight [C, 1, taps]."""
    C = x.shape[1]
    k = w(f'{name}.weight', C, 1, taps, size=0.5)[:, 0]
    pad = np.concatenate([np.zeros((taps - 1, C)), x])
    y = sum(pad[j:j + len(x)] * k[:, j] for j in range(taps))
    return act(y + w(f'{name}.bias', C, size=0.2) if bias else y)


# --------------------------------------------------------------------- Mamba
def mamba_mixer(w, x, b, di=64, n=4, rank=2, bias=False, inner=None, conv_bias=True):
    """inner(y, which): what is done to the step, B and C."""
    y = w.lin(x, f'{b}.in_proj', 2 * di, bias)
    v, z = conv(w, y[:, :di], f'{b}.conv1d', bias=conv_bias), y[:, di:]
    p = w.lin(v, f'{b}.x_proj', rank + 2 * n)
    dt, B, C = p[:, :rank], p[:, rank:rank + n], p[:, rank + n:]
    if inner:
        dt, B, C = inner(dt, 'dt'), inner(B, 'b'), inner(C, 'c')
    dt = softplus(w.lin(dt, f'{b}.dt_proj', di, True))
    A, D, S, out = -np.exp(w(f'{b}.A_log', di, n, size=0.5)), w(f'{b}.D', di, size=0.3, around=1), np.zeros((di, n)), []
    for t in range(len(x)):
        S = np.exp(dt[t][:, None] * A) * S + (dt[t] * v[t])[:, None] * B[t]
        out.append(S @ C[t] + D * v[t])
    return w.lin(np.array(out) * silu(z), f'{b}.out_proj', x.shape[1], bias)


def mamba_logits(w, L=2, tied=True, **more):
    return pre(w, L, lambda x, b, i: mamba_mixer(w, x, f'{b}.mixer', **more), None, 1e-5, stem='backbone.', names=('norm',),
               embed='embeddings', last='norm_f', tied=tied)


MAMBA = dict(state_size=16, layer_norm_epsilon=1e-5, expand=2, conv_kernel=4, use_bias=False, use_conv_bias=True, hidden_act='silu',
             residual_in_fp32=True, time_step_rank='auto', time_step_scale=1.0, time_step_min=0.001, time_step_max=0.1,
             time_step_init_scheme='random', time_step_floor=1e-4, rescale_prenorm_residual=False, use_mambapy=False,
             tie_word_embeddings=True)
MAMBA_GIVEN = dict(vocab_size=VOCAB, hidden_size=H, num_hidden_layers=2, state_size=4)


@case
def mamba(w):
    return variants('mamba', 'MambaForCausalLM', MAMBA, dict(MAMBA_GIVEN, intermediate_size=64, time_step_rank=2), False), mamba_logits(w)


@case
def mamba_own(w):
    """A head of its own, biases, no bias in the convolution; expand says the width."""
    y = mamba_logits(w, 2, False, bias=True, conv_bias=False, di=96)
    return variants('mamba', 'MambaForCausalLM', MAMBA, dict(MAMBA_GIVEN, expand=3, use_bias=True, use_conv_bias=False,
                                                             tie_word_embeddings=False), False), y


@case
def falcon_mamba(w):
    y = mamba_logits(w, inner=lambda y, c: rms(y, 1e-6))
    return variants('falcon_mamba', 'FalconMambaForCausalLM', dict(MAMBA, mixer_rms_eps=1e-6), dict(MAMBA_GIVEN, expand=2), False), y


@case
def jamba(w):
    def mixer(x, b, i):
        if i == 2:
            return gqa(w, x, f'{b}.self_attn')
        return mamba_mixer(w, x, f'{b}.mamba', inner=lambda y, c: w.rms(y, f'{b}.mamba.{c}_layernorm', 1e-6))

    def network(x, b, i):
        b += '.feed_forward'
        if i % 2 == 0:
            return mlp(w, x, b, FF)
        return mix(x, softmax_top(w.lin(x, f'{b}.router', 4), 2, False), each(w, f'{b}.experts', FF))
    y = pre(w, 4, mixer, network, 1e-6, names=('input_layernorm', 'pre_ff_layernorm'), last='final_layernorm')
    return variants('jamba', 'JambaForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, num_logits_to_keep=1, sliding_window=None,
                         num_experts_per_tok=2, num_experts=16, expert_layer_period=2, expert_layer_offset=1, attn_layer_period=8,
                         attn_layer_offset=4, use_mamba_kernels=False, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2,
                         mamba_dt_rank='auto', mamba_conv_bias=True, mamba_proj_bias=False, output_router_logits=False,
                         router_aux_loss_coef=0.001),
                    dict(SIZES, num_hidden_layers=4, num_experts=4, attn_layer_period=4, attn_layer_offset=2, mamba_d_state=4), False), y


# ------------------------------------------------------------------- Mamba-2
def ssd(w, x, b, n=8, dv=8, g=2, dk=4, norm=None, scales=(1, 1, 1, 1, 1), bias=False, limit=(0, np.inf), o_bias=None):
    """norm(y, z, name): what is done to the result and the gate."""
    di = n * dv
    y = w.lin(x, f'{b}.in_proj', 2 * di + 2 * g * dk + n, bias)
    y = y * np.repeat(scales, [di, di, g * dk, g * dk, n])
    z, c, dt = y[:, :di], conv(w, y[:, di:-n], f'{b}.conv1d'), y[:, -n:]
    v, B, C = heads(c[:, :di], dv), heads(c[:, di:di + g * dk], dk), heads(c[:, di + g * dk:], dk)
    B, C = B.repeat(n // g, 1), C.repeat(n // g, 1)
    dt = np.clip(softplus(dt + w(f'{b}.dt_bias', n, size=0.5)), *limit)
    A, D = -np.exp(w(f'{b}.A_log', n, size=0.5)), w(f'{b}.D', n, size=0.3, around=1)
    S, out = np.zeros((n, dv, dk)), []
    for t in range(len(x)):
        S = np.exp(dt[t] * A)[:, None, None] * S + dt[t][:, None, None] * v[t][:, :, None] * B[t][:, None, :]
        out.append(np.einsum('hvk,hk->hv', S, C[t]) + D[:, None] * v[t])
    out = np.array(out).reshape(len(x), di)
    out = norm(out, z, f'{b}.norm.weight') if norm else out * silu(z)
    return w.lin(out, f'{b}.out_proj', x.shape[1], bias if o_bias is None else o_bias)


def gated_norm(w, eps, groups=1, before=False):
    def norm(y, z, name):
        y = y if before else y * silu(z)
        y = rms(y.reshape(len(y), groups, -1), eps).reshape(y.shape) * w(name, y.shape[1], size=0.2, around=1)
        return y * silu(z) if before else y
    return norm


SSD_KEYS = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=4)


@case
def mamba2(w):
    y = pre(w, 2, lambda x, b, i: ssd(w, x, f'{b}.mixer', g=1, norm=gated_norm(w, 1e-5), limit=(0.1, 0.9)), None, 1e-5,
            stem='backbone.', names=('norm',), embed='embeddings', last='norm_f')
    c = variants('mamba2', 'Mamba2ForCausalLM',
                 dict(layer_norm_epsilon=1e-5, expand=2, conv_kernel=4, use_bias=False, use_conv_bias=True, hidden_act='silu',
                      residual_in_fp32=True, time_step_rank='auto', time_step_min=0.001, time_step_max=0.1, time_step_floor=1e-4,
                      time_step_limit=[0.0, float('inf')], rescale_prenorm_residual=False, rms_norm=True, chunk_size=256,
                      tie_word_embeddings=False, n_groups=8, num_heads=128, head_dim=64, state_size=128),
                 dict(vocab_size=VOCAB, hidden_size=H, num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=1,
                      time_step_limit=[0.1, 0.9]), False)
    return c, y


@case
def bamba(w):
    def mixer(x, b, i):
        if i == 1:
            return gqa(w, x, f'{b}.self_attn', d=8, f=freqs(4, 1e4))
        return ssd(w, x, f'{b}.mamba', norm=gated_norm(w, 1e-5))
    y = pre(w, 3, mixer, lambda x, b, i: mlp(w, x, f'{b}.feed_forward', FF), 1e-5, names=('input_layernorm', 'pre_ff_layernorm'),
            last='final_layernorm')
    return variants('bamba', 'BambaForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, num_logits_to_keep=1, rope_theta=1e4,
                         mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=256, mamba_conv_bias=True, mamba_proj_bias=False,
                         z_loss_coefficient=0.0, partial_rotary_factor=0.5, attention_bias=False, mlp_bias=False,
                         time_step_min=0.001, time_step_max=0.1, time_step_limit=[0.0, float('inf')]),
                    dict(SIZES, num_hidden_layers=3, attn_layer_indices=[1], **SSD_KEYS)), y


def granite_hybrid(w, E, attention, embed, residual, logits, rope):
    def mixer(x, b, i):
        if i == 1:
            return gqa(w, x, f'{b}.self_attn', scale=attention, f=freqs(8, 1e4) if rope else None)
        return ssd(w, x, f'{b}.mamba', norm=gated_norm(w, 1e-6))

    def network(x, b, i):
        z = w.lin(x, f'{b}.shared_mlp.input_linear', 48)
        y = w.lin(silu(z[:, :24]) * z[:, 24:], f'{b}.shared_mlp.output_linear', H)
        b += '.block_sparse_moe'
        for e in range(E):
            if e == 0:
                g = top_softmax(w.lin(x, f'{b}.router.layer', E), 2)
            u = x @ w(f'{b}.input_linear.weight', E, 2 * FF, H)[e].T
            y = y + g[:, e:e + 1] * ((silu(u[:, :FF]) * u[:, FF:]) @ w(f'{b}.output_linear.weight', E, H, FF)[e].T)
        return y
    return pre(w, 3, mixer, network, 1e-6, scale=embed, residual=residual, tied=True) / logits


HYBRID = dict(hidden_act='silu', rms_norm_eps=1e-6, rope_theta=1e4, rope_scaling=None, tie_word_embeddings=True,
              attention_bias=False, embedding_multiplier=1.0, logits_scaling=1.0, residual_multiplier=1.0, attention_multiplier=1.0,
              num_local_experts=8, num_experts_per_tok=2, output_router_logits=False, router_aux_loss_coef=0.001,
              shared_intermediate_size=1024, position_embedding_type=None, mamba_n_heads=128, mamba_n_groups=1, mamba_d_state=256,
              mamba_d_head='auto', mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=256, mamba_conv_bias=True, mamba_proj_bias=False,
              time_step_min=0.001, time_step_max=0.1, time_step_limit=[0.0, float('inf')], normalization_function='rmsnorm')
HYBRID_GIVEN = dict(SIZES, num_hidden_layers=3, num_local_experts=4, shared_intermediate_size=24, mamba_n_heads=8, mamba_n_groups=2,
                    mamba_d_state=4)


@case
def granitemoehybrid(w):
    y = granite_hybrid(w, 4, 0.2, 6.0, 0.3, 4.0, False)
    given = dict(HYBRID_GIVEN, embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3, attention_multiplier=0.2)
    c = variants('granitemoehybrid', 'GraniteMoeHybridForCausalLM', HYBRID, dict(given, layer_types=['mamba', 'attention', 'mamba']))
    c['v5']['layer_types'] = ['linear_attention', 'full_attention', 'linear_attention']
    c['nope'] = dict(c['saved'], position_embedding_type='nope')
    return c, y


@case
def granitemoehybrid_dense(w):
    """Granite 4's small models: no experts, and rotation."""
    y = granite_hybrid(w, 0, 1.0, 1.0, 1.0, 1.0, True)
    return variants('granitemoehybrid', 'GraniteMoeHybridForCausalLM', HYBRID,
                    dict(HYBRID_GIVEN, num_local_experts=0, num_experts_per_tok=0, position_embedding_type='rope',
                         layer_types=['mamba', 'attention', 'mamba'])), y


def falcon_h1_logits(w, norm, embed=1.0, head=1.0, key=1.0, a_in=1.0, a_out=1.0, s_in=1.0, s_out=1.0, mlp_m=(1.0, 1.0), ssm=(1,) * 5):
    def mixer(x, b, i):
        y = x * a_in
        c = f'{b}.self_attn'
        q, k, v = (heads(w.lin(y, f'{c}.{n}_proj', m * 8), 8) for n, m in (('q', 4), ('k', 2), ('v', 2)))
        f = freqs(8, 1e5)
        a = w.lin(attend(rotate(q, f), rotate(k * key, f), v), f'{c}.o_proj', H) * a_out
        return a + ssd(w, x * s_in, f'{b}.mamba', norm=norm, scales=ssm) * s_out

    def network(x, b, i):
        b += '.feed_forward'
        y = silu(w.lin(x, f'{b}.gate_proj', FF) * mlp_m[0]) * w.lin(x, f'{b}.up_proj', FF)
        return w.lin(y, f'{b}.down_proj', H) * mlp_m[1]
    return pre(w, 2, mixer, network, 1e-5, scale=embed, names=('input_layernorm', 'pre_ff_layernorm'), last='final_layernorm') * head


FALCON_H1 = dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, num_logits_to_keep=1, mamba_d_ssm=1024,
                 mamba_n_heads=128, mamba_d_head='auto', mamba_n_groups=1, mamba_d_state=256, mamba_d_conv=4, mamba_expand=2,
                 mamba_chunk_size=256, mamba_conv_bias=True, mamba_proj_bias=False, mamba_norm_before_gate=True, mamba_rms_norm=False,
                 projectors_bias=False, rope_theta=1e5, rope_scaling=None, lm_head_multiplier=1.0, embedding_multiplier=1.0,
                 mlp_multipliers=[1.0, 1.0], key_multiplier=1.0, attention_out_multiplier=1.0, attention_in_multiplier=1.0,
                 ssm_multipliers=[1.0] * 5, ssm_in_multiplier=1.0, ssm_out_multiplier=1.0, attention_bias=False, mlp_bias=False,
                 time_step_min=0.001, time_step_max=0.1, time_step_limit=[0.0, float('inf')])
FALCON_GIVEN = dict(SIZES, num_hidden_layers=2, mamba_d_ssm=64, mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=4)


@case
def falcon_h1(w):
    y = falcon_h1_logits(w, gated_norm(w, 1e-5, 2), 5.6, 0.04, 0.4, 1.3, 0.9, 1.2, 0.3, (0.9, 0.7), (0.4, 0.25, 0.2, 0.5, 0.35))
    return variants('falcon_h1', 'FalconH1ForCausalLM', FALCON_H1,
                    dict(FALCON_GIVEN, mamba_rms_norm=True, mamba_norm_before_gate=False, embedding_multiplier=5.6, lm_head_multiplier=0.04,
                         key_multiplier=0.4, attention_in_multiplier=1.3, attention_out_multiplier=0.9, ssm_in_multiplier=1.2,
                         ssm_out_multiplier=0.3, mlp_multipliers=[0.9, 0.7], ssm_multipliers=[0.4, 0.25, 0.2, 0.5, 0.35])), y


@case
def falcon_h1_before(w):
    y = falcon_h1_logits(w, gated_norm(w, 1e-5, 2, True))
    return variants('falcon_h1', 'FalconH1ForCausalLM', FALCON_H1, dict(FALCON_GIVEN, mamba_rms_norm=True)), y


@case
def falcon_h1_plain(w):
    return variants('falcon_h1', 'FalconH1ForCausalLM', FALCON_H1, FALCON_GIVEN), falcon_h1_logits(w, None)


@case
def nemotron_h(w):
    def mixer(x, b, i):
        b += '.mixer'
        kind = 'M*-EM'[i]
        if kind == 'M':
            return ssd(w, x, b, norm=gated_norm(w, 1e-5, 2))
        if kind == '*':
            return gqa(w, x, b, d=16)
        if kind == '-':
            return w.lin(np.maximum(w.lin(x, f'{b}.up_proj', FF), 0)**2, f'{b}.down_proj', H)
        g = noaux(w.lin(x, f'{b}.gate', 6), w(f'{b}.gate.e_score_correction_bias', 6, size=0.1), 3, scale=2.5)
        low = w.lin(x, f'{b}.fc1_latent_proj', 20)

        def net(y, name, n):
            return w.lin(np.maximum(w.lin(y, f'{name}.up_proj', n), 0)**2, f'{name}.down_proj', y.shape[1])
        y = w.lin(mix(low, g, lambda e, y: net(y, f'{b}.experts.{e}', WIDE)), f'{b}.fc2_latent_proj', H)
        return y + net(x, f'{b}.shared_experts', 24)
    y = pre(w, 5, mixer, None, 1e-5, stem='backbone.', names=('norm',), embed='embeddings', last='norm_f')
    given = dict(SIZES, head_dim=16, ssm_state_size=4, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, n_routed_experts=6,
                 num_experts_per_tok=3, moe_intermediate_size=WIDE, moe_shared_expert_intermediate_size=24, routed_scaling_factor=2.5,
                 moe_latent_size=20)
    c = variants('nemotron_h', 'NemotronHForCausalLM',
                 dict(tie_word_embeddings=False, num_logits_to_keep=1, attention_bias=False, sliding_window=None, mlp_hidden_act='relu2',
                      mlp_bias=False, use_mamba_kernels=True, mamba_hidden_act='silu', conv_kernel=4, expand=2, time_step_min=0.001,
                      time_step_max=0.1, time_step_limit=[0.0, float('inf')], time_step_floor=1e-4, use_conv_bias=True, chunk_size=128,
                      mamba_proj_bias=False, mamba_ssm_cache_dtype='float32', n_shared_experts=1, moe_shared_expert_overlap=True,
                      n_group=1, topk_group=1, norm_topk_prob=True, use_bias=False, layer_norm_epsilon=1e-5,
                      residual_in_fp32=False, hidden_dropout=0.0, rescale_prenorm_residual=True, num_nextn_predict_layers=0,
                      mamba_n_groups=2), dict(given, num_hidden_layers=5, hybrid_override_pattern='M*-EM'), False)
    words = dict(M='linear_attention', E='moe')
    words.update({'*': 'full_attention', '-': 'mlp'})
    c['words'] = {k: v for k, v in c['sparse'].items() if k not in ('hybrid_override_pattern', 'num_hidden_layers')} | dict(
        layers_block_type=[words[x] for x in 'M*-EM'])
    c['words-old'] = {k: v for k, v in c['words'].items()} | dict(layers_block_type=['mamba', 'attention', 'mlp', 'moe', 'mamba'],
                                                                  num_hidden_layers=5)
    return c, y


# ------------------------------------------------------------- linear attention
def l2(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta(q, k, v, g, beta):
    """Gated delta rule; g [T, h] or [T, h, dk] is the logarithm of the decay."""
    n, dk, dv = v.shape[1], k.shape[2], v.shape[2]
    q, k = l2(q).repeat(n // q.shape[1], 1) * dk**-0.5, l2(k).repeat(n // k.shape[1], 1)
    g = np.broadcast_to(g[..., None] if g.ndim == 2 else g, (len(g), n, dk))
    S, out = np.zeros((n, dk, dv)), []
    for t in range(len(v)):
        S = S * np.exp(g[t])[..., None]
        u = (v[t] - np.einsum('hkv,hk->hv', S, k[t])) * beta[t][:, None]
        S = S + k[t][..., None] * u[:, None]
        out.append(np.einsum('hkv,hk->hv', S, q[t]))
    return np.array(out)


def qwen_linear(w, x, b, split, hk=2, hv=4, dk=8, dv=6):
    b, r = f'{b}.linear_attn', hv // hk
    if split:
        y = w.lin(x, f'{b}.in_proj_qkv', 2 * hk * dk + hv * dv)
        z = heads(w.lin(x, f'{b}.in_proj_z', hv * dv), dv)
        be, a = w.lin(x, f'{b}.in_proj_b', hv), w.lin(x, f'{b}.in_proj_a', hv)
    else:
        p = w.lin(x, f'{b}.in_proj_qkvz', 2 * hk * dk + 2 * hv * dv).reshape(T, hk, -1)
        q, k, v, z = np.split(p, [dk, 2 * dk, 2 * dk + r * dv], -1)
        y = np.concatenate([c.reshape(T, -1) for c in (q, k, v)], -1)
        z = z.reshape(T, hv, dv)
        ba = w.lin(x, f'{b}.in_proj_ba', 2 * hv).reshape(T, hk, 2 * r)
        be, a = ba[..., :r].reshape(T, hv), ba[..., r:].reshape(T, hv)
    y = conv(w, y, f'{b}.conv1d', bias=False)
    q, k, v = (heads(c, d) for c, d in zip(np.split(y, [hk * dk, 2 * hk * dk], -1), (dk, dk, dv)))
    g = -np.exp(w(f'{b}.A_log', hv, size=0.5)) * softplus(a + w(f'{b}.dt_bias', hv, size=0.5))
    o = w.rms(delta(q, k, v, g, sigmoid(be)), f'{b}.norm', 1e-6) * silu(z)
    return w.lin(o.reshape(T, -1), f'{b}.out_proj', H)


def qwen_full(w, x, b, d=16, n=4, theta=1e4):
    b += '.self_attn'
    p = w.lin(x, f'{b}.q_proj', n * 2 * d).reshape(T, n, 2 * d)
    q, gate = p[..., :d], p[..., d:].reshape(T, -1)
    k, v = (heads(w.lin(x, f'{b}.{c}_proj', 2 * d), d) for c in 'kv')
    q, k = w.rms(q, f'{b}.q_norm', 1e-6, 1), w.rms(k, f'{b}.k_norm', 1e-6, 1)
    f = freqs(d // 4, theta)
    return w.lin(attend(rotate(q, f), rotate(k, f), v) * sigmoid(gate), f'{b}.o_proj', H)


def qwen_next(w, split, kind, stem='model.', theta=1e4, head='lm_head'):
    def network(x, b, i):
        b += '.mlp'
        if kind is None:
            return mlp(w, x, b, FF)
        y = mix(x, softmax_top(w.lin(x, f'{b}.gate', 6), 3, True), kind(b))
        return y + sigmoid(w.lin(x, f'{b}.shared_expert_gate', 1)) * mlp(w, x, f'{b}.shared_expert', 24)
    return pre(w, 4, lambda x, b, i: qwen_full(w, x, b, theta=theta) if i == 3 else qwen_linear(w, x, b, split), network, 1e-6,
               lambda x, name: w.rms(x, name, 1e-6, 1), stem=stem, head=head)


LINEAR = dict(linear_key_head_dim=8, linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4, head_dim=16,
              num_hidden_layers=4)
EXPERTS = dict(moe_intermediate_size=WIDE, shared_expert_intermediate_size=24, num_experts_per_tok=3, num_experts=6)
NEXT = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
            partial_rotary_factor=0.25, attention_bias=False, linear_conv_kernel_dim=4, output_router_logits=False,
            router_aux_loss_coef=0.001, layer_types=None)


@case
def qwen3_next(w):
    y = qwen_next(w, False, lambda b: each(w, f'{b}.experts', WIDE))
    c = variants('qwen3_next', 'Qwen3NextForCausalLM', dict(NEXT, decoder_sparse_step=1, norm_topk_prob=True, mlp_only_layers=[]),
                 dict(SIZES, **LINEAR, **EXPERTS))
    c['words'] = dict(c['saved'], layer_types=['linear_attention'] * 3 + ['full_attention'], full_attention_interval=4)
    return c, y


@case
def qwen3_5_moe(w):
    """As published: the text model inside, experts stacked."""
    y = qwen_next(w, True, lambda b: stacked(w, f'{b}.experts', 6, WIDE), 'model.language_model.', 1e7)
    rope = {'rope_type': 'default', 'rope_theta': 1e7, 'partial_rotary_factor': 0.25, 'mrope_section': [1, 1, 0],
            'mrope_interleaved': True}
    text = dict(SIZES, **LINEAR, **EXPERTS, model_type='qwen3_5_moe_text', rope_parameters=rope, attn_output_gate=True,
                mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, mamba_ssm_dtype='float32', hidden_act='silu',
                full_attention_interval=4, layer_types=['linear_attention'] * 3 + ['full_attention'])
    del text['intermediate_size']
    return {'nested': dict(model_type='qwen3_5_moe', architectures=['Qwen3_5MoeForConditionalGeneration'], image_token_id=1,
                           video_token_id=2, tie_word_embeddings=False, text_config=text, vision_config={'model_type': 'qwen3_5_moe'})}, y


@case
def qwen3_5(w):
    y = qwen_next(w, True, None)
    return variants('qwen3_5_text', 'Qwen3_5ForCausalLM', NEXT, dict(SIZES, **LINEAR, num_key_value_heads=2)), y


@case
def kimi_linear(w):
    d, n = 8, 4

    def mixer(x, b, i):
        b += '.self_attn'
        if i == 1:
            q = heads(w.lin(x, f'{b}.q_proj', n * 12), 12)
            kv = w.lin(x, f'{b}.kv_a_proj_with_mqa', 16)
            up = heads(w.lin(w.rms(kv[:, :12], f'{b}.kv_a_layernorm', 1e-6), f'{b}.kv_b_proj', n * 16), 16)
            k = np.concatenate([up[..., :8], kv[:, None, 12:].repeat(n, 1)], -1)
            return w.lin(attend(q, k, up[..., 8:]), f'{b}.o_proj', H)
        q, k, v = (heads(conv(w, w.lin(x, f'{b}.{c}_proj', n * d), f'{b}.{c}_conv1d', bias=False), d) for c in 'qkv')
        g = heads(w.lin(w.lin(x, f'{b}.f_a_proj', d), f'{b}.f_b_proj', n * d) + w(f'{b}.dt_bias', n * d, size=0.5), d)
        g = -np.exp(w(f'{b}.A_log', 1, 1, n, 1, size=0.5)[0]) * softplus(g)
        o = w.rms(delta(q, k, v, g, sigmoid(w.lin(x, f'{b}.b_proj', n))), f'{b}.o_norm', 1e-5)
        z = heads(w.lin(w.lin(x, f'{b}.g_a_proj', d), f'{b}.g_b_proj', n * d), d)
        return w.lin((o * sigmoid(z)).reshape(T, -1), f'{b}.o_proj', H)

    def network(x, b, i):
        if i == 0:
            return mlp(w, x, f'{b}.mlp', FF)
        b += '.block_sparse_moe'
        g = noaux(w.lin(x, f'{b}.gate', 6), w(f'{b}.gate.e_score_correction_bias', 6, size=0.1), 3, scale=2.4)
        return mix(x, g, each(w, f'{b}.experts', WIDE, 'w1', 'w3', 'w2')) + mlp(w, x, f'{b}.shared_experts', WIDE)
    y = pre(w, 3, mixer, network, 1e-5)
    given = dict(SIZES, num_hidden_layers=3, num_key_value_heads=4, head_dim=12, kv_lora_rank=12, q_lora_rank=None, qk_nope_head_dim=8,
                 qk_rope_head_dim=4, v_head_dim=8, mla_use_nope=True, num_experts=6, num_experts_per_token=3, num_shared_experts=1,
                 moe_intermediate_size=WIDE, first_k_dense_replace=1, moe_renormalize=True, moe_router_activation_func='sigmoid',
                 routed_scaling_factor=2.4, use_grouped_topk=True, num_expert_group=1, topk_group=1, moe_layer_freq=1,
                 num_nextn_predict_layers=0, rms_norm_eps=1e-5, rope_theta=1e4, rope_scaling=None, hidden_act='silu',
                 tie_word_embeddings=False, model_max_length=64,
                 linear_attn_config={'full_attn_layers': [2], 'kda_layers': [1, 3], 'head_dim': 8, 'num_heads': 4,
                                     'short_conv_kernel_size': 4})
    del given['max_position_embeddings']
    return variants('kimi_linear', 'KimiLinearForCausalLM', {}, given, False), y


def lightning(w, x, b, i, L, n=4, d=8):
    b += '.self_attn'
    p = silu(w.lin(x, f'{b}.qkv_proj', 3 * n * d)).reshape(T, n, 3, d)
    rate = 2.0**(-8 * (np.arange(n) + 1) / n) * (1 - i / (L - 1) + 1e-5)
    S, out = np.zeros((n, d, d)), []
    for t in range(T):
        S = S * np.exp(-rate)[:, None, None] + p[t, :, 1, :, None] * p[t, :, 2, None]
        out.append(np.einsum('hkv,hk->hv', S, p[t, :, 0]))
    o = w.rms(np.array(out).reshape(T, -1), f'{b}.norm', 1e-6)
    return w.lin(o * sigmoid(w.lin(x, f'{b}.output_gate', n * d)), f'{b}.out_proj', H)


def minimax_logits(w, full, alphas, L=3, eps=1e-5):
    x, f = w.embed('model.embed_tokens', TOKENS, H), freqs(8, 1e7)
    for i in range(L):
        b = f'model.layers.{i}'
        h = w.rms(x, f'{b}.input_layernorm', eps)
        y = gqa(w, h, f'{b}.self_attn', f=f) if i in full else lightning(w, h, b, i, L)
        x = h * alphas[i not in full] + y
        h = w.rms(x, f'{b}.post_attention_layernorm', eps)
        m = f'{b}.block_sparse_moe'
        x = h * alphas[2] + mix(h, top_softmax(w.lin(h, f'{m}.gate', 4), 2), each(w, f'{m}.experts', FF, 'w1', 'w3', 'w2'))
    return w.lin(w.rms(x, 'model.norm', eps), 'lm_head', VOCAB)


MINIMAX = dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e6, sliding_window=None,
               num_experts_per_tok=2, num_local_experts=8, output_router_logits=False, router_aux_loss_coef=0.001, router_jitter_noise=0.0)


@case
def minimax(w):
    y = minimax_logits(w, (1,), (3.0, 2.0, 1.5))
    given = dict(SIZES, num_hidden_layers=3, head_dim=8, num_local_experts=4, rope_theta=1e7)
    c = variants('minimax', 'MiniMaxForCausalLM',
                 dict(MINIMAX, block_size=256, linear_attn_beta_factor=1, full_attn_beta_factor=1, mlp_beta_factor=1),
                 dict(given, layer_types=['linear_attention', 'full_attention', 'linear_attention'], full_attn_alpha_factor=3.0,
                      linear_attn_alpha_factor=2.0, mlp_alpha_factor=1.5))
    old = variants('minimax_text_01', 'MiniMaxText01ForCausalLM', MINIMAX,
                   dict(given, attn_type_list=[0, 1, 0], postnorm=True, layernorm_full_attention_alpha=3.0,
                        layernorm_full_attention_beta=1.0, layernorm_linear_attention_alpha=2.0, layernorm_linear_attention_beta=1.0,
                        layernorm_mlp_alpha=1.5, layernorm_mlp_beta=1.0, rotary_dim=8, shared_intermediate_size=0,
                        shared_moe_mode='sigmoid'), False)
    c['text-01'] = old['saved']
    c['text-01-sparse'] = old['sparse']
    return c, y


# ------------------------------------------------------------------ convolutions
def lfm2_logits(w, L, full, network):
    def mixer(x, b, i):
        if i in full:
            b += '.self_attn'
            q, k, v = (heads(w.lin(x, f'{b}.{c}_proj', n * 8), 8) for c, n in (('q', 4), ('k', 2), ('v', 2)))
            q, k = (rotate(w.rms(z, f'{b}.{c}_layernorm', 1e-5), freqs(8, 1e6)) for z, c in ((q, 'q'), (k, 'k')))
            return w.lin(attend(q, k, v), f'{b}.out_proj', H)
        b += '.conv'
        B, C, v = np.split(w.lin(x, f'{b}.in_proj', 3 * H), 3, -1)
        return w.lin(C * conv(w, B * v, f'{b}.conv', 3, False, lambda y: y), f'{b}.out_proj', H)
    return pre(w, L, mixer, network, 1e-5, names=('operator_norm', 'ffn_norm'), last='embedding_norm', tied=True)


LFM2 = dict(norm_eps=1e-5, tie_word_embeddings=True, rope_theta=1e6, conv_bias=False, conv_L_cache=3, num_key_value_heads=8)


@case
def lfm2(w):
    ff = 64  # (two thirds of 72, times 1.0) rounded up to 32
    y = lfm2_logits(w, 3, (1,), lambda x, b, i: mlp(w, x, f'{b}.feed_forward', ff, gate='w1', up='w3', down='w2'))
    c = variants('lfm2', 'Lfm2ForCausalLM', dict(LFM2, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True,
                                                 full_attn_idxs=None),
                 dict(SIZES, num_hidden_layers=3, intermediate_size=72, block_multiple_of=32,
                      layer_types=['conv', 'full_attention', 'conv']))
    c['indices'] = {k: v for k, v in c['saved'].items() if k != 'layer_types'} | dict(full_attn_idxs=[1], block_dim=H, conv_dim=H,
                                                                                      conv_dim_out=H, block_ff_dim=72, num_heads=4,
                                                                                      block_norm_eps=1e-5, use_pos_enc=True,
                                                                                      block_use_swiglu=True, conv_use_xavier_init=True)
    return c, y


@case
def lfm2_moe(w):
    def network(x, b, i):
        b += '.feed_forward'
        if i == 0:
            return mlp(w, x, b, FF, gate='w1', up='w3', down='w2')
        g = noaux(w.lin(x, f'{b}.gate', 6), w(f'{b}.expert_bias', 6, size=0.1), 3, scale=1.3)
        return mix(x, g, each(w, f'{b}.experts', WIDE, 'w1', 'w3', 'w2'))
    y = lfm2_logits(w, 3, (1,), network)
    return variants('lfm2_moe', 'Lfm2MoeForCausalLM',
                    dict(LFM2, num_dense_layers=2, num_experts=32, num_experts_per_tok=4, norm_topk_prob=True, use_expert_bias=True,
                         routed_scaling_factor=1.0, moe_intermediate_size=1792),
                    dict(SIZES, num_hidden_layers=3, layer_types=['conv', 'full_attention', 'conv'], num_dense_layers=1, num_experts=6,
                         num_experts_per_tok=3, moe_intermediate_size=WIDE, routed_scaling_factor=1.3)), y


# ---------------------------------------------------------------------- RWKV-4
@case
def rwkv(w):
    n, ff = 24, 40

    def shifted(x):
        return np.concatenate([np.zeros((1, x.shape[1])), x[:-1]])

    def mixed(x, b, c):
        m = w(f'{b}.time_mix_{c}', 1, 1, H, size=0.3, around=0.5)[0]
        return x * m + shifted(x) * (1 - m)

    def attention(x, b):
        k, v = w.lin(mixed(x, b, 'key'), f'{b}.key', n), w.lin(mixed(x, b, 'value'), f'{b}.value', n)
        r = sigmoid(w.lin(mixed(x, b, 'receptance'), f'{b}.receptance', n))
        decay, first = -np.exp(w(f'{b}.time_decay', n, size=0.5)), w(f'{b}.time_first', n, size=0.5)
        num, den, out = np.zeros(n), np.zeros(n), []
        for t in range(T):
            out.append((num + np.exp(first + k[t]) * v[t]) / (den + np.exp(first + k[t])))
            num, den = np.exp(decay) * num + np.exp(k[t]) * v[t], np.exp(decay) * den + np.exp(k[t])
        return w.lin(r * np.array(out), f'{b}.output', H)
    n = H
    x = w.layer(w.embed('rwkv.embeddings', TOKENS, H), 'rwkv.blocks.0.pre_ln')
    for i in range(2):
        b = f'rwkv.blocks.{i}'
        x = x + attention(w.layer(x, f'{b}.ln1'), f'{b}.attention')
        y, b = w.layer(x, f'{b}.ln2'), f'{b}.feed_forward'
        k = np.maximum(w.lin(mixed(y, b, 'key'), f'{b}.key', ff), 0)**2
        x = x + sigmoid(w.lin(mixed(y, b, 'receptance'), f'{b}.receptance', H)) * w.lin(k, f'{b}.value', H)
    y = w.lin(w.layer(x, 'rwkv.ln_out'), 'head', VOCAB)
    return variants('rwkv', 'RwkvForCausalLM',
                    dict(context_length=1024, attention_hidden_size=H, layer_norm_epsilon=1e-5, rescale_every=6,
                         tie_word_embeddings=False),
                    dict(vocab_size=VOCAB, hidden_size=H, num_hidden_layers=2, intermediate_size=ff), False), y


@case
def rwkv7(w):
    n, d, first = 4, 8, []

    def shift(x):
        return np.concatenate([np.zeros((1, H)), x[:-1]]) - x

    def attention(x, b):
        dx = shift(x)
        m = {c: x + dx * w(f'{b}.x_{c}', 1, 1, H, size=0.3, around=0.5)[0] for c in 'rwkvag'}

        def lora(c, rank, act, bias=True):
            return w.lin(act(w.lin(m[c], f'{b}.{c}_lora.lora.0', rank)), f'{b}.{c}_lora.lora.2', H, bias)
        r, k, v = (w.lin(m[c], f'{b}.{c}_proj', H) for c in 'rkv')
        decay = np.exp(-np.exp(-0.5) * sigmoid(lora('w', 6, np.tanh)))
        a, g = sigmoid(lora('a', 5, lambda x: x)), lora('g', 7, sigmoid, False)
        if first:
            v = v + (first[0] - v) * sigmoid(lora('v', 3, lambda x: x))
        else:
            first.append(v)
        kk = heads(k * w(f'{b}.k_k', H, size=0.3, around=1), d)
        kk = kk / np.sqrt((kk * kk).sum(-1, keepdims=True))
        k = k + k * (a - 1) * w(f'{b}.k_a', H, size=0.3, around=1)
        r, k, v, a, decay = (heads(y, d) for y in (r, k, v, a, decay))
        S, out = np.zeros((n, d, d)), []
        for t in range(T):
            S = S * decay[t][:, None] - np.einsum('hvk,hk->hv', S, kk[t])[..., None] * (kk[t] * a[t])[:, None] + v[t][..., None] * k[t][:, None]
            out.append(np.einsum('hvk,hk->hv', S, r[t]))
        o = np.array(out)
        o = o - o.mean(-1, keepdims=True)
        o = (o / np.sqrt((o * o).mean(-1, keepdims=True) + d * 1e-5)).reshape(T, H)
        o = o * w(f'{b}.g_norm.weight', H, size=0.2, around=1) + w(f'{b}.g_norm.bias', H, size=0.2)
        o = o + ((r * k * w(f'{b}.r_k', n, d, size=0.3)).sum(-1, keepdims=True) * v).reshape(T, H)
        return w.lin(o * g, f'{b}.o_proj', H)
    x = w.layer(w.embed('model.embeddings', TOKENS, H), 'model.layers.0.pre_norm')
    for i in range(3):
        b = f'model.layers.{i}'
        x = x + attention(w.layer(x, f'{b}.attn_norm'), f'{b}.attn')
        y, b = w.layer(x, f'{b}.ffn_norm'), f'{b}.ffn'
        y = w.lin(y + shift(y) * w(f'{b}.x_k', H, size=0.3, around=0.5), f'{b}.key', FF)
        x = x + w.lin(np.maximum(y, 0)**2, f'{b}.value', H)
    y = w.lin(w.layer(x, 'model.norm'), 'lm_head', VOCAB)
    return {'saved': dict(model_type='rwkv7', architectures=['RWKV7ForCausalLM'], vocab_size=VOCAB, hidden_size=H, num_hidden_layers=3,
                          head_dim=d, num_heads=n, intermediate_size=FF, hidden_ratio=4.0, hidden_act='sqrelu', decay_low_rank_dim=6,
                          gate_low_rank_dim=7, a_low_rank_dim=5, v_low_rank_dim=3, norm_eps=1e-5, norm_bias=True, norm_first=True,
                          attn=None, attn_mode='chunk', fuse_norm=True, fuse_cross_entropy=True, use_l2warp=False, use_cache=True,
                          max_position_embeddings=2048, tie_word_embeddings=False, initializer_range=0.006,
                          value_dim=[H] * 3, bos_token_id=1, eos_token_id=2)}, y


if __name__ == '__main__':
    sys.exit(run(sys.argv, CASES, Runner, Weights))
