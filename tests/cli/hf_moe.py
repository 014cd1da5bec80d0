# SPDX-License-Identifier: GPL-3.0-or-later
# Small checkpoints with routed experts and plain attention: the program's logits against the
# arithmetic of the published modelling code (Hugging Face transformers, src/transformers/
# models/*/modeling_*.py and configuration_*.py, or the model's own repository).
# Usage: hf_moe.py NMBENCH FOLDER [MODEL_TYPE..]
import sys

import numpy as np

from hf_parts import *  # noqa: F403
from tiny_hf import Runner, Weights, frequencies, variants

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def mixtral(w):
    E, f = 4, freqs(8, 1e6)
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=f),
            lambda x, b, i: mix(x, top_softmax(w.lin(x, f'{b}.block_sparse_moe.gate', E), 2),
                                each(w, f'{b}.block_sparse_moe.experts', FF, 'w1', 'w3', 'w2')), 1e-5)
    return variants('mixtral', 'MixtralForCausalLM',
                    dict(head_dim=None, hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=None,
                         num_experts_per_tok=2, num_local_experts=8, output_router_logits=False, rope_theta=1e6,
                         router_aux_loss_coef=0.001, router_jitter_noise=0.0),
                    dict(SIZES, num_hidden_layers=2, num_local_experts=E)), y


def qwen_moe(w, shared, bias, renorm, qk, dense=(), each_=each):
    def network(x, b, i):
        b += '.mlp'
        if i in dense:
            return mlp(w, x, b, FF)
        y = mix(x, softmax_top(w.lin(x, f'{b}.gate', 6), 3, renorm), each_(w, f'{b}.experts', WIDE))
        if shared:
            y = y + sigmoid(w.lin(x, f'{b}.shared_expert_gate', 1)) * mlp(w, x, f'{b}.shared_expert', 24)
        return y
    f = freqs(8 if not qk else 16, 1e4)
    return pre(w, 3, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=f, d=16 if qk else 8, bias=bias, o_bias=False,
                                         norm=rms_heads(w, 1e-6) if qk else None), network, 1e-6)


QWEN2 = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
             use_sliding_window=False, sliding_window=4096, max_window_layers=28, decoder_sparse_step=1, moe_intermediate_size=1408,
             shared_expert_intermediate_size=5632, num_experts_per_tok=4, num_experts=60, norm_topk_prob=False,
             output_router_logits=False, router_aux_loss_coef=0.001, mlp_only_layers=[], qkv_bias=True)


@case
def qwen2_moe(w):
    y = qwen_moe(w, True, True, False, False, dense=(1,))
    return variants('qwen2_moe', 'Qwen2MoeForCausalLM', QWEN2,
                    dict(SIZES, num_hidden_layers=3, moe_intermediate_size=WIDE, shared_expert_intermediate_size=24,
                         num_experts_per_tok=3, num_experts=6, mlp_only_layers=[1])), y


QWEN3 = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None, attention_bias=False,
             use_sliding_window=False, sliding_window=4096, max_window_layers=28, decoder_sparse_step=1, moe_intermediate_size=768,
             num_experts_per_tok=8, num_experts=128, norm_topk_prob=False, output_router_logits=False,
             router_aux_loss_coef=0.001, mlp_only_layers=[])


@case
def qwen3_moe(w):
    y = qwen_moe(w, False, False, True, True, dense=(0, 2))
    return variants('qwen3_moe', 'Qwen3MoeForCausalLM', QWEN3,
                    dict(SIZES, num_hidden_layers=3, moe_intermediate_size=WIDE, num_experts_per_tok=3, num_experts=6, head_dim=16,
                         norm_topk_prob=True, decoder_sparse_step=2)), y


@case
def qwen3_moe_plain(w):
    """norm_topk_prob is false where the file leaves it out."""
    y = qwen_moe(w, False, False, False, True)
    return variants('qwen3_moe', 'Qwen3MoeForCausalLM', QWEN3,
                    dict(SIZES, num_hidden_layers=3, moe_intermediate_size=WIDE, num_experts_per_tok=3, num_experts=6,
                         head_dim=16)), y


OLMOE = dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
             attention_bias=False, clip_qkv=None, num_experts_per_tok=8, num_experts=64, output_router_logits=False,
             router_aux_loss_coef=0.01, norm_topk_prob=False, num_key_value_heads=None)


@case
def olmoe(w):
    def attn(x, b, i):
        q, k, v = (w.lin(x, f'{b}.self_attn.{c}_proj', 32) for c in 'qkv')
        q, k = (w.rms(y, f'{b}.self_attn.{c}_norm', 1e-5) for y, c in ((q, 'q'), (k, 'k')))
        q, k, v = (heads(np.clip(y, -0.8, 0.8), 8) for y in (q, k, v))
        f = freqs(8, 1e4)
        return w.lin(attend(rotate(q, f), rotate(k, f), v), f'{b}.self_attn.o_proj', H)
    y = pre(w, 2, attn, lambda x, b, i: mix(x, softmax_top(w.lin(x, f'{b}.mlp.gate', 6), 3, False),
                                            each(w, f'{b}.mlp.experts', FF)), 1e-5)
    return variants('olmoe', 'OlmoeForCausalLM', OLMOE,
                    dict(SIZES, num_hidden_layers=2, num_key_value_heads=4, num_experts=6, num_experts_per_tok=3, clip_qkv=0.8)), y


@case
def flex_olmo(w):
    x, f = w.embed('model.embed_tokens', TOKENS, H), freqs(8, 5e5)
    for i in range(2):
        b = f'model.layers.{i}'
        x = x + w.rms(gqa(w, x, f'{b}.self_attn', kv=4, f=f, norm=rms_flat(w, 1e-6)), f'{b}.post_attention_layernorm', 1e-6)
        y = mix(x, softmax_top(w.lin(x, f'{b}.mlp.gate', 7), 5, False), each(w, f'{b}.mlp.experts', FF))
        x = x + w.rms(y, f'{b}.post_feedforward_layernorm', 1e-6)
    y = w.lin(w.rms(x, 'model.norm', 1e-6), 'lm_head', VOCAB)
    return variants('flex_olmo', 'FlexOlmoForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=5e5, rope_scaling=None,
                         attention_bias=False, num_experts_per_tok=5, num_experts=7, output_router_logits=False,
                         router_aux_loss_coef=0.01, norm_topk_prob=False),
                    dict(SIZES, num_hidden_layers=2, num_key_value_heads=4)), y


def sparsemixer(s, jitter=0.01):
    """Phi-3.5-MoE's choice of two, as it is at inference."""
    out, m = np.zeros_like(s), s.copy()
    for _ in range(2):
        best = m.max(-1, keepdims=True)
        far = (best - s) / np.maximum(np.abs(s), best) > 2 * jitter
        g = softmax(np.where(far, -np.inf, m))
        i = m.argmax(-1)[:, None]
        np.put_along_axis(out, i, take(g, i), -1)
        np.put_along_axis(m, i, -np.inf, -1)
    return out


@case
def phimoe(w):
    E, jitter = 6, 0.2
    scale = {'type': 'longrope', 'short_factor': [1.0, 1.5, 2.0, 3.0], 'long_factor': [1.0, 2.0, 4.0, 8.0],
             'short_mscale': 1.2, 'long_mscale': 1.3, 'original_max_position_embeddings': 32}
    f = freqs(8, 1e6) / np.array(scale['short_factor'])
    x = w.embed('model.embed_tokens', TOKENS, H)
    for i in range(2):
        b = f'model.layers.{i}'
        x = x + gqa(w, w.layer(x, f'{b}.input_layernorm'), f'{b}.self_attn', f=f, size=1.2, bias=True)
        y = w.layer(x, f'{b}.post_attention_layernorm')
        s = w.lin(y, f'{b}.block_sparse_moe.gate', E)
        x = x + mix(y, sparsemixer(s, jitter), each(w, f'{b}.block_sparse_moe.experts', FF, 'w1', 'w3', 'w2'))
    y = w.lin(w.layer(x, 'model.norm'), 'lm_head', VOCAB, True)
    return variants('phimoe', 'PhiMoEForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e6, sliding_window=None,
                         num_experts_per_tok=2, num_local_experts=16, output_router_logits=False, router_aux_loss_coef=0.001,
                         router_jitter_noise=0.01, input_jitter_noise=0.0, attention_bias=False, lm_head_bias=False),
                    dict(SIZES, num_hidden_layers=2, num_local_experts=E, router_jitter_noise=jitter, attention_bias=True,
                         lm_head_bias=True, rope_scaling=scale)), y


@case
def phimoe_default(w):
    E = 8
    x, f = w.embed('model.embed_tokens', TOKENS, H), freqs(8, 1e6)
    for i in range(2):
        b = f'model.layers.{i}'
        x = x + gqa(w, w.layer(x, f'{b}.input_layernorm'), f'{b}.self_attn', f=f)
        y = w.layer(x, f'{b}.post_attention_layernorm')
        x = x + mix(y, sparsemixer(w.lin(y, f'{b}.mlp.router', E)), stacked(w, f'{b}.mlp.experts', E, FF))
    y = w.lin(w.layer(x, 'model.norm'), 'lm_head', VOCAB)
    return {'sparse': dict(SIZES, model_type='phimoe', num_hidden_layers=2, num_local_experts=E)}, y


# ------------------------------------------------------------------ gpt-oss
def oss_expert(gate, up):
    gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)
    return (up + 1) * gate * sigmoid(1.702 * gate)


def gpt_oss_logits(w, E, k, n, weights, theta=150000.0, scaling=None):
    f, size = frequencies(8, theta, scaling, 64) if scaling else (freqs(8, theta), 1.0)

    def network(x, b, i):
        m = f'{b}.mlp'
        gu, dn = weights(m)
        gb, db = w(f'{m}.experts.gate_up_proj_bias', E, 2 * n, size=0.3), w(f'{m}.experts.down_proj_bias', E, H, size=0.3)

        def expert(e, x):
            y = x @ gu[e] + gb[e]
            return oss_expert(y[:, ::2], y[:, 1::2]) @ dn[e] + db[e]
        return mix(x, top_softmax(w.lin(x, f'{m}.router', E, True), k), expert)

    def attn(x, b, i):
        return gqa(w, x, f'{b}.self_attn', f=f, size=size, bias=True, sinks=w(f'{b}.self_attn.sinks', 4),
                   mask=causal(T, 4 if i % 2 == 0 else 0))
    return pre(w, 3, attn, network, 1e-5)


OSS = dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=150000.0, attention_bias=True,
           sliding_window=128, num_experts_per_tok=4, num_local_experts=128, output_router_logits=False, router_aux_loss_coef=0.9,
           head_dim=64, swiglu_limit=7.0, experts_per_token=4, initial_context_length=4096)
OSS_GIVEN = dict(SIZES, num_hidden_layers=3, intermediate_size=WIDE, num_local_experts=5, num_experts_per_tok=4, head_dim=8,
                 sliding_window=4, layer_types=['sliding_attention', 'full_attention', 'sliding_attention'])


@case
def gpt_oss(w):
    E = 5
    y = gpt_oss_logits(w, E, 4, WIDE, lambda m: (w(f'{m}.experts.gate_up_proj', E, H, 2 * WIDE, size=2.0),
                                           w(f'{m}.experts.down_proj', E, WIDE, H, size=0.3)))
    c = variants('gpt_oss', 'GptOssForCausalLM', OSS, OSS_GIVEN)
    c['no-types'] = {k: v for k, v in c['sparse'].items() if k != 'layer_types'}
    return c, y


@case
def gpt_oss_mxfp4(w):
    """As published: 4-bit codes of two values a byte, the lower half first, in groups of 32."""
    E, rng = 5, np.random.default_rng(7)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    table = np.concatenate([table, -table])

    def blocks(name, rows, cols):
        if name + '_blocks' not in w.file:
            b = rng.integers(0, 256, (E, rows, cols // 32, 16), dtype=np.uint8)
            s = rng.integers(124, 128, (E, rows, cols // 32), dtype=np.uint8)
            w.raw(name + '_blocks', 'U8', b)
            w.raw(name + '_scales', 'U8', s)
            v = np.stack([table[b & 15], table[b >> 4]], -1).reshape(E, rows, cols // 32, 32) * 2.0**(s.astype(int) - 127)[..., None]
            w.value[name] = v.reshape(E, rows, cols).transpose(0, 2, 1)
        return w.value[name]
    y = gpt_oss_logits(w, E, 4, 32, lambda m: (blocks(f'{m}.experts.gate_up_proj', 2 * 32, H),
                                           blocks(f'{m}.experts.down_proj', H, 32)),
                       scaling=dict(rope_type='yarn', factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=16))
    c = variants('gpt_oss', 'GptOssForCausalLM', OSS, dict(
        OSS_GIVEN, intermediate_size=32,
        rope_scaling=dict(rope_type='yarn', factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                          original_max_position_embeddings=16),
        quantization_config=dict(quant_method='mxfp4', modules_to_not_convert=[
            'model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head'])))
    return c, y


# ----------------------------------------------- experts in tensors of their own shape
@case
def dbrx(w):
    E, f = 4, freqs(8, 5e5)

    def attn(x, b, i):
        y = np.clip(w.lin(x, f'{b}.norm_attn_norm.attn.Wqkv', 64), -0.9, 0.9)
        q, k, v = (heads(z, 8) for z in (y[:, :32], y[:, 32:48], y[:, 48:]))
        return w.lin(attend(rotate(q, f), rotate(k, f), v), f'{b}.norm_attn_norm.attn.out_proj', H)

    def expert(b):
        def run(e, x):
            w1, v1, w2 = (w(f'{b}.experts.mlp.{n}', E * WIDE, H, size=s).reshape(E, WIDE, H)[e]
                          for n, s in (('w1', H**-0.5), ('v1', H**-0.5), ('w2', 0.25)))
            return (ACT['silu'](x @ w1.T) * (x @ v1.T)) @ w2
        return run
    y = pre(w, 2, attn, lambda x, b, i: mix(x, softmax_top(w.lin(x, f'{b}.ffn.router.layer', E), 2, True), expert(f'{b}.ffn')),
            1e-5, lambda x, name: w.layer(x, name, 1e-5, False), 'transformer.', ('norm_attn_norm.norm_1', 'norm_attn_norm.norm_2'),
            'blocks', 'wte', 'norm_f')
    given = dict(vocab_size=VOCAB, d_model=H, n_heads=4, n_layers=2, max_seq_len=64)
    attn_c = dict(kv_n_heads=2, clip_qkv=0.9, rope_theta=5e5)
    ffn_c = dict(ffn_hidden_size=WIDE, moe_num_experts=E, moe_top_k=2)
    c = variants('dbrx', 'DbrxForCausalLM', dict(resid_pdrop=0.0, emb_pdrop=0.0, output_router_logits=False,
                                                 tie_word_embeddings=False),
                 dict(given, attn_config=dict(attn_c, attn_pdrop=0.0, model_type=''),
                      ffn_config=dict(ffn_c, ffn_act_fn={'name': 'silu'}, moe_jitter_eps=0.0, moe_loss_weight=0.05,
                                      moe_normalize_expert_weights=1, uniform_expert_assignment=False, model_type='')), False)
    c['least'] = dict(given, model_type='dbrx', attn_config=attn_c, ffn_config=ffn_c)
    return c, y


def granite_moe(w, shared, attention=0.2, embed=6.0, residual=0.3, logits=4.0, tied=False):
    def expert(b):
        def run(e, x):
            y = x @ w(f'{b}.input_linear.weight', 4, 2 * FF, H)[e].T
            return (ACT['silu'](y[:, :FF]) * y[:, FF:]) @ w(f'{b}.output_linear.weight', 4, H, FF)[e].T
        return run

    def network(x, b, i):
        y = mix(x, top_softmax(w.lin(x, f'{b}.block_sparse_moe.router.layer', 4), 2), expert(f'{b}.block_sparse_moe'))
        if shared:
            z = w.lin(x, f'{b}.shared_mlp.input_linear', 2 * shared)
            y = y + w.lin(ACT['silu'](z[:, :shared]) * z[:, shared:], f'{b}.shared_mlp.output_linear', H)
        return y
    return pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=freqs(8, 1e4), scale=attention), network, 1e-6,
               scale=embed, residual=residual, tied=tied) / logits


GRANITE = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
               attention_bias=False, embedding_multiplier=1.0, logits_scaling=1.0, residual_multiplier=1.0, attention_multiplier=1.0,
               num_local_experts=8, num_experts_per_tok=2, output_router_logits=False, router_aux_loss_coef=0.001)
GRANITE_GIVEN = dict(SIZES, num_hidden_layers=2, num_local_experts=4, embedding_multiplier=6.0, logits_scaling=4.0,
                     residual_multiplier=0.3, attention_multiplier=0.2)


@case
def granitemoe(w):
    return variants('granitemoe', 'GraniteMoeForCausalLM', GRANITE, GRANITE_GIVEN), granite_moe(w, 0)


@case
def granitemoe_plain(w):
    """Factors that a file leaves out are 1, that of the scores too."""
    return (variants('granitemoe', 'GraniteMoeForCausalLM', GRANITE, dict(SIZES, num_hidden_layers=2, num_local_experts=4)),
            granite_moe(w, 0, 1.0, 1.0, 1.0, 1.0))


@case
def granitemoeshared(w):
    return variants('granitemoeshared', 'GraniteMoeSharedForCausalLM', dict(GRANITE, shared_intermediate_size=0),
                    dict(GRANITE_GIVEN, shared_intermediate_size=24)), granite_moe(w, 24)


# -------------------------------------------------------- a dense network first, shared experts
@case
def ernie4_5_moe(w):
    def network(x, b, i):
        b += '.mlp'
        if i == 0:
            return mlp(w, x, b, FF)
        s = softmax(w.lin(x, f'{b}.gate', 6))
        j = top(s + w(f'{b}.moe_statics.e_score_correction_bias', 1, 6, size=0.1), 3)
        g = take(s, j)
        y = mix(x, spread(j, g / g.sum(-1, keepdims=True), 6), each(w, f'{b}.experts', WIDE))
        return y + mlp(w, x, f'{b}.shared_experts', 2 * WIDE)
    y = pre(w, 3, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=freqs(8, 5e5), adjacent=True), network, 1e-5, tied=True)
    return variants('ernie4_5_moe', 'Ernie4_5_MoeForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=True, rope_theta=5e5, rope_scaling=None,
                         use_bias=False, moe_intermediate_size=1536, moe_k=6, moe_num_experts=64, moe_num_shared_experts=2,
                         moe_layer_start_index=1, moe_layer_end_index=-1, moe_layer_interval=1, moe_norm_min=1e-12,
                         output_router_logits=False, router_aux_loss_coef=0.001, num_key_value_heads=4),
                    dict(SIZES, num_hidden_layers=3, moe_intermediate_size=WIDE, moe_k=3, moe_num_experts=6)), y


def noaux_net(w, dense, E, k, shared, bias_name='gate.e_score_correction_bias', block='mlp', ff=FF, gate='gate',
              shared_name='shared_experts', kind=each, **more):
    def network(x, b, i):
        b = f'{b}.{block}'
        if i < dense:
            return mlp(w, x, b, ff)
        g = noaux(w.lin(x, f'{b}.{gate}', E), w(f'{b}.{bias_name}', E, size=0.1), k, **more)
        y = mix(x, g, kind(w, f'{b}.experts', WIDE))
        return y + mlp(w, x, f'{b}.{shared_name}', shared) if shared else y
    return network


@case
def glm4_moe(w):
    y = pre(w, 3, lambda x, b, i: gqa(w, x, f'{b}.self_attn', d=16, f=freqs(8, 1e4), bias=True, o_bias=False, norm=rms_heads(w, 1e-5)),
            noaux_net(w, 1, 8, 3, WIDE, scale=1.5, groups=4, keep=2), 1e-5)
    return variants('glm4_moe', 'Glm4MoeForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
                         attention_bias=False, partial_rotary_factor=0.5, moe_intermediate_size=1408, num_experts_per_tok=8,
                         n_shared_experts=1, n_routed_experts=128, routed_scaling_factor=1.0, n_group=1, topk_group=1,
                         first_k_dense_replace=1, norm_topk_prob=True, use_qk_norm=False),
                    dict(SIZES, num_hidden_layers=3, head_dim=16, attention_bias=True, moe_intermediate_size=WIDE, n_routed_experts=8,
                         num_experts_per_tok=3, routed_scaling_factor=1.5, n_group=4, topk_group=2, use_qk_norm=True)), y


@case
def dots1(w):
    y = pre(w, 3, lambda x, b, i: gqa(w, x, f'{b}.self_attn', kv=4, f=freqs(8, 1e4), norm=rms_heads(w, 1e-6)),
            noaux_net(w, 1, 6, 3, 2 * WIDE, scale=2.5), 1e-6)
    return variants('dots1', 'Dots1ForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
                         attention_bias=False, moe_intermediate_size=1408, n_shared_experts=None, n_routed_experts=None, n_group=1,
                         topk_group=1, num_experts_per_tok=None, first_k_dense_replace=0, norm_topk_prob=False,
                         routed_scaling_factor=1.0, sliding_window=4096, max_window_layers=62, scoring_func='noaux_tc'),
                    dict(SIZES, num_hidden_layers=3, num_key_value_heads=4, moe_intermediate_size=WIDE, n_routed_experts=6,
                         n_shared_experts=2, num_experts_per_tok=3, first_k_dense_replace=1, norm_topk_prob=True,
                         routed_scaling_factor=2.5)), y


@case
def deepseek(w):
    def network(x, b, i):
        b += '.mlp'
        if i == 0:
            return mlp(w, x, b, FF)
        return (mix(x, softmax_top(w.lin(x, f'{b}.gate', 6), 3, False), each(w, f'{b}.experts', WIDE)) +
                mlp(w, x, f'{b}.shared_experts', 2 * WIDE))
    y = pre(w, 3, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=freqs(8, 1e4)), network, 1e-6)
    return variants('deepseek', 'DeepseekForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
                         attention_bias=False, moe_intermediate_size=1407, n_shared_experts=None, n_routed_experts=None,
                         num_experts_per_tok=None, moe_layer_freq=1, first_k_dense_replace=0, norm_topk_prob=False,
                         scoring_func='softmax', aux_loss_alpha=0.001, seq_aux=True, pretraining_tp=1),
                    dict(SIZES, num_hidden_layers=3, moe_intermediate_size=WIDE, n_routed_experts=6, n_shared_experts=2,
                         num_experts_per_tok=3, first_k_dense_replace=1)), y


def fused_qkv(w, x, name, f, d=8, norm=None, bias=False):
    y = w.lin(x, f'{name}.query_key_value', 8 * d, bias)
    q, k, v = (heads(z, d) for z in (y[:, :4 * d], y[:, 4 * d:6 * d], y[:, 6 * d:]))
    if norm:
        q, k = norm(q, f'{name}.query_layernorm'), norm(k, f'{name}.key_layernorm')
    return w.lin(attend(rotate(q, f), rotate(k, f), v), f'{name}.dense', H, bias)


@case
def bailing_moe(w):
    """Ling's code norms the rows of the head where norm_head says so."""
    def network(x, b, i):
        b += '.mlp'
        return (mix(x, softmax_top(w.lin(x, f'{b}.gate', 6), 3, True), each(w, f'{b}.experts', WIDE)) +
                mlp(w, x, f'{b}.shared_experts', 2 * WIDE))
    x = pre(w, 2, lambda x, b, i: fused_qkv(w, x, f'{b}.attention', freqs(8, 6e5)), network, 1e-6, embed='word_embeddings')
    head = w('lm_head.weight', VOCAB, H)
    y = x / np.sqrt((head * head).sum(-1))
    return variants('bailing_moe', 'BailingMoeForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
                         use_qkv_bias=False, use_bias=False, embedding_dropout=0.0, output_dropout=0.0, norm_topk_prob=True,
                         first_k_dense_replace=0, norm_head=False, norm_softmax=False, max_window_layers=28, use_sliding_window=False,
                         num_shared_experts=0, head_dim=None, multi_gate=False, output_router_logits=False),
                    dict(SIZES, num_hidden_layers=2, rms_norm_eps=1e-6, rope_theta=6e5, head_dim=8, norm_head=True, num_experts=6,
                         num_experts_per_tok=3, num_shared_experts=2, moe_intermediate_size=WIDE), False), y


@case
def bailing_moe_v2(w):
    y = pre(w, 3, lambda x, b, i: fused_qkv(w, x, f'{b}.attention', freqs(8, 6e5), 16, rms_heads(w, 1e-6)),
            noaux_net(w, 1, 8, 3, WIDE, 'gate.expert_bias', scale=2.5, groups=4, keep=2), 1e-6, embed='word_embeddings')
    c = variants('bailing_moe', 'BailingMoeV2ForCausalLM',
                 dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=6e5, rope_scaling=None,
                      use_qkv_bias=False, use_bias=False, embedding_dropout=0.0, output_dropout=0.0, norm_topk_prob=True,
                      max_window_layers=20, use_sliding_window=False, num_shared_experts=1, use_qk_norm=True,
                      moe_router_enable_expert_bias=True, routed_scaling_factor=1.0, output_router_logits=False,
                      score_function='sigmoid', router_dtype='fp32', num_nextn_predict_layers=0, mtp_loss_scaling_factor=0),
                 dict(SIZES, num_hidden_layers=3, head_dim=16, partial_rotary_factor=0.5, num_experts=8, num_experts_per_tok=3,
                      n_group=4, topk_group=2, moe_intermediate_size=WIDE, first_k_dense_replace=1, routed_scaling_factor=2.5,
                      moe_shared_expert_intermediate_size=WIDE), False)
    c['saved-v2'] = dict(c['saved'], model_type='bailing_moe_v2')
    return c, y


@case
def hunyuan_v1_moe(w):
    def after(name):
        return lambda x, c: w.rms(x, f'{name}.{dict(q="query", k="key")[c]}_layernorm', 1e-5)

    def network(x, b, i):
        b += '.mlp'
        return mlp(w, x, f'{b}.shared_mlp', FF) + mix(x, softmax_top(w.lin(x, f'{b}.gate.wg', 6), 3, True),
                                                      each(w, f'{b}.experts', FF))
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=freqs(8, 1e4), after=after(f'{b}.self_attn')), network, 1e-5)
    c = variants('hunyuan_v1_moe', 'HunYuanMoEV1ForCausalLM',
                 dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e4, rope_scaling=None,
                      attention_bias=False, num_experts=1, use_mixed_mlp_moe=False, moe_topk=1, moe_drop_tokens=False,
                      moe_random_routing_dropped_token=False, head_dim=None, sliding_window=None, eod_token_id=3, sep_token_id=4),
                 dict(SIZES, num_hidden_layers=2, num_experts=6, moe_topk=[3, 3]))
    return c, y


@case
def minimax_m2(w):
    def network(x, b, i):
        b += '.block_sparse_moe'
        g = noaux(w.lin(x, f'{b}.gate', 6), w(f'{b}.e_score_correction_bias', 6, size=0.1), 3)
        return mix(x, g, each(w, f'{b}.experts', FF, 'w1', 'w3', 'w2'))
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', d=16, f=freqs(8, 5e6), norm=rms_flat(w, 1e-6)), network, 1e-6)
    return variants('minimax_m2', 'MiniMaxM2ForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=5e6, rope_scaling=None,
                         sliding_window=None, router_jitter_noise=0.0, output_router_logits=False, router_aux_loss_coef=0.001),
                    dict(SIZES, num_hidden_layers=2, head_dim=16, rotary_dim=8, num_local_experts=6, num_experts_per_tok=3,
                         use_qk_norm=True, qk_norm_type='per_layer', scoring_func='sigmoid', use_routing_bias=True,
                         shared_intermediate_size=0, attn_type_list=[1, 1], use_mtp=True, num_mtp_modules=3, mtp_transformer_layers=1,
                         router_aux_loss_coef=0.001), False), y


# --------------------------------------------------- layers with something of their own
@case
def afmoe(w):
    x, f = w.embed('model.embed_tokens', TOKENS, H) * H**0.5, freqs(16, 1e4)
    net = noaux_net(w, 1, 6, 3, 2 * WIDE, 'expert_bias', gate='router.gate', scale=1.7)
    for i in range(4):
        b, local = f'model.layers.{i}', i % 4 != 3
        y = w.rms(x, f'{b}.input_layernorm', 1e-5)
        q, k, v = (heads(w.lin(y, f'{b}.self_attn.{c}_proj', n * 16), 16) for c, n in (('q', 4), ('k', 2), ('v', 2)))
        q, k = (w.rms(z, f'{b}.self_attn.{c}_norm', 1e-5) for z, c in ((q, 'q'), (k, 'k')))
        if local:
            q, k = rotate(q, f), rotate(k, f)
        a = attend(q, k, v, mask=causal(T, 4 if local else 0)) * sigmoid(w.lin(y, f'{b}.self_attn.gate_proj', 64))
        x = x + w.rms(w.lin(a, f'{b}.self_attn.o_proj', H), f'{b}.post_attention_layernorm', 1e-5)
        x = x + w.rms(net(w.rms(x, f'{b}.pre_mlp_layernorm', 1e-5), b, i), f'{b}.post_mlp_layernorm', 1e-5)
    y = w.lin(w.rms(x, 'model.norm', 1e-5), 'lm_head', VOCAB)
    return variants('afmoe', 'AfmoeForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e4, moe_intermediate_size=1408,
                         num_dense_layers=1, num_experts=64, num_experts_per_tok=6, num_shared_experts=2, route_scale=1.0,
                         global_attn_every_n_layers=4, sliding_window=1024, layer_types=None, mup_enabled=False,
                         score_func='sigmoid', route_norm=True, n_group=1, topk_group=1),
                    dict(SIZES, num_hidden_layers=4, head_dim=16, moe_intermediate_size=WIDE, num_experts=6, num_experts_per_tok=3,
                         route_scale=1.7, sliding_window=4, mup_enabled=True)), y


@case
def laguna(w):
    local = [i % 2 == 0 for i in range(3)]
    n = [6 if o else 4 for o in local]

    def attn(x, b, i):
        b += '.self_attn'
        q, k, v = (heads(w.lin(x, f'{b}.{c}_proj', m * 16), 16) for c, m in (('q', n[i]), ('k', 2), ('v', 2)))
        q, k = (w.rms(z, f'{b}.{c}_norm', 1e-6) for z, c in ((q, 'q'), (k, 'k')))
        f = freqs(16, 1e4) if local[i] else freqs(8, 5e5)
        y = attend(rotate(q, f), rotate(k, f), v, mask=causal(T, 4 if local[i] else 0)).reshape(T, n[i], 16)
        return w.lin((y * np.log1p(np.exp(w.lin(x, f'{b}.g_proj', n[i])))[..., None]).reshape(T, -1), f'{b}.o_proj', H)

    def network(x, b, i):
        b += '.mlp'
        if i == 0:
            return mlp(w, x, b, FF)
        s = np.tanh(w.lin(x, f'{b}.gate', 6) / 2) * 2
        g = noaux(s, w(f'{b}.gate.e_score_correction_bias', 6, size=0.1), 3, scale=1.5)
        return mix(x, g, each(w, f'{b}.experts', WIDE)) + mlp(w, x, f'{b}.shared_experts', 24)
    y = pre(w, 3, attn, network, 1e-6)
    c = variants('laguna', 'LagunaForCausalLM',
                 dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False, attention_bias=False, gating=True,
                      moe_apply_router_weight_on_input=False, output_router_logits=False, router_aux_loss_coef=0.001,
                      rope_parameters={'full_attention': {'rope_type': 'default', 'rope_theta': 500000.0, 'partial_rotary_factor': 0.5},
                                       'sliding_attention': {'rope_type': 'default', 'rope_theta': 10000.0,
                                                             'partial_rotary_factor': 1.0}}),
                 dict(SIZES, num_hidden_layers=3, head_dim=16, num_attention_heads_per_layer=n, sliding_window=4,
                      layer_types=['sliding_attention' if o else 'full_attention' for o in local],
                      mlp_layer_types=['dense', 'sparse', 'sparse'], num_experts=6, num_experts_per_tok=3, moe_intermediate_size=WIDE,
                      shared_expert_intermediate_size=24, moe_routed_scaling_factor=1.5, moe_router_logit_softcapping=2.0))
    return c, y


@case
def arctic(w):
    x, f = w.embed('model.embed_tokens', TOKENS, H), freqs(8, 1e6)
    for i in range(2):
        b = f'model.layers.{i}'
        m = f'{b}.block_sparse_moe'
        a = x + gqa(w, w.rms(x, f'{b}.input_layernorm', 1e-5), f'{b}.self_attn', f=f)
        if i % 2 == 0:
            x = a + mlp(w, w.rms(a, f'{b}.post_attention_layernorm', 1e-5), f'{m}.mlp', FF, gate='w1', up='w3', down='w2')
            continue
        a = a + mlp(w, w.rms(a, f'{b}.residual_layernorm', 1e-5), f'{b}.residual_mlp', H, gate='w1', up='w3', down='w2')
        y = w.rms(x, f'{b}.post_attention_layernorm', 1e-5)
        x = a + mix(y, softmax_top(w.lin(y, f'{m}.gate', 6), 2, True), each(w, f'{m}.experts', FF, 'w1', 'w3', 'w2'))
    y = w.lin(w.rms(x, 'model.norm', 1e-5), 'lm_head', VOCAB)
    return variants('arctic', 'ArcticForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e6, sliding_window=None,
                         num_experts_per_tok=1, num_local_experts=8, router_aux_loss_coef=0.001, moe_layer_frequency=2,
                         parallel_attn_mlp_res=False, moe_train_capacity_factor=1, moe_eval_capacity_factor=1,
                         enable_expert_tensor_parallelism=False, moe_min_capacity=0, moe_token_dropping=True, quantization=None,
                         use_residual=True),
                    dict(SIZES, num_hidden_layers=2, num_local_experts=6, num_experts_per_tok=2, parallel_attn_mlp_res=True), False), y


@case
def step3_text(w):
    f = freqs(8, 5e5)

    def attn(x, b, i):
        b += '.self_attn'
        q = w.lin(w.rms(w.lin(x, f'{b}.q_proj', 20), f'{b}.inter_norm', 1e-5), f'{b}.wq', 32)
        k, v = (heads(w.lin(x, f'{b}.{c}_proj', 8), 8) for c in 'kv')
        return w.lin(attend(rotate(heads(q, 8), f), rotate(k, f), v), f'{b}.o_proj', H)

    def expert(b):
        return lambda e, x: ((ACT['silu'](x @ w(f'{b}.gate_proj.weight', 6, WIDE, H)[e].T) *
                              (x @ w(f'{b}.up_proj.weight', 6, WIDE, H)[e].T)) @ w(f'{b}.down_proj.weight', 6, H, WIDE)[e].T)

    def network(x, b, i):
        if i != 1:
            return mlp(w, x, f'{b}.mlp', FF)
        return mlp(w, x, f'{b}.share_expert', 24) + mix(x, softmax_top(w.lin(x, f'{b}.moe.gate', 6), 3, False), expert(f'{b}.moe'))
    y = pre(w, 3, attn, network, 1e-5)
    text = dict(SIZES, num_hidden_layers=3, num_attention_groups=1, share_q_dim=20, head_dim=8, moe_layers_enum='1', moe_num_experts=6,
                moe_top_k=3, moe_intermediate_size=WIDE, share_expert_dim=24, norm_expert_weight=False, rms_norm_eps=1e-5,
                rope_theta=5e5, rope_scaling=None, num_key_value_heads=None, max_position_embedding=64)
    del text['num_key_value_heads']
    return variants('step3_text', 'Step3TextForCausalLM', {}, text, False), y


@case
def aria(w):
    def expert(b):
        def run(e, x):
            y = x @ w(f'{b}.fc1.weight', 6, H, 2 * WIDE, size=0.2)[e]
            return (ACT['silu'](y[:, :WIDE]) * y[:, WIDE:]) @ w(f'{b}.fc2.weight', 6, WIDE, H, size=0.25)[e]
        return run

    def network(x, b, i):
        b += '.mlp'
        return (mix(x, top_softmax(w.lin(x, f'{b}.router', 6), 2), expert(f'{b}.experts')) +
                mlp(w, x, f'{b}.shared_experts', 2 * WIDE))
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', f=freqs(8, 5e6)), network, 1e-6, stem='language_model.model.',
            head='language_model.lm_head')
    text = dict(SIZES, model_type='aria_text', num_hidden_layers=2, intermediate_size=WIDE, moe_num_experts=6, rope_theta=5e6)
    return {'nested': dict(model_type='aria', architectures=['AriaForConditionalGeneration'], image_token_index=9, projector_patch_to_query_dict={
        '1225': 128}, text_config=text, vision_config={'model_type': 'idefics3_vision'})}, y


@case
def solar_open(w):
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', d=16, f=freqs(16, 1e6)), noaux_net(w, 0, 6, 3, WIDE), 1e-5)
    return variants('solar_open', 'SolarOpenForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=1e6, rope_scaling=None,
                         attention_bias=False, moe_intermediate_size=1280, num_experts_per_tok=8, n_shared_experts=1,
                         n_routed_experts=128, routed_scaling_factor=1.0, n_group=1, topk_group=1, norm_topk_prob=True,
                         partial_rotary_factor=1.0),
                    dict(SIZES, num_hidden_layers=2, head_dim=16, moe_intermediate_size=WIDE, n_routed_experts=6,
                         num_experts_per_tok=3)), y


@case
def exaone_moe(w):
    def attn(x, b, i):
        local = i % 4 != 3
        return gqa(w, x, f'{b}.self_attn', f=freqs(8, 1e6) if local else None, norm=rms_heads(w, 1e-5), mask=causal(T, 4 if local else 0))
    y = pre(w, 4, attn, noaux_net(w, 1, 6, 3, WIDE, scale=2.5), 1e-5)
    return variants('exaone_moe', 'ExaoneMoEForCausalLM',
                    dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_scaling=None,
                         sliding_window=4096, sliding_window_pattern=4, first_k_dense_replace=1, moe_intermediate_size=1024,
                         num_experts=64, num_experts_per_tok=8, num_shared_experts=1, norm_topk_prob=True, routed_scaling_factor=2.5,
                         n_group=1, topk_group=1),
                    dict(SIZES, num_hidden_layers=4, moe_intermediate_size=WIDE, num_experts=6, num_experts_per_tok=3, sliding_window=4,
                         rope_theta=1e6)), y


@case
def qwen3_vl_moe(w):
    """Experts stacked and turned, as their published files have them; the text model inside."""
    def network(x, b, i):
        return mix(x, softmax_top(w.lin(x, f'{b}.mlp.gate', 6), 3, True), stacked(w, f'{b}.mlp.experts', 6, WIDE, turned=True))
    y = pre(w, 2, lambda x, b, i: gqa(w, x, f'{b}.self_attn', d=16, f=freqs(16, 5e6), norm=rms_heads(w, 1e-6)), network, 1e-6,
            stem='model.language_model.')
    text = dict(SIZES, model_type='qwen3_vl_moe_text', num_hidden_layers=2, head_dim=16, rope_theta=5e6, num_experts=6,
                num_experts_per_tok=3, moe_intermediate_size=WIDE, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                hidden_act='silu', rms_norm_eps=1e-6, attention_bias=False,
                rope_scaling={'mrope_interleaved': True, 'mrope_section': [4, 2, 2], 'rope_type': 'default'})
    return {'nested': dict(model_type='qwen3_vl_moe', architectures=['Qwen3VLMoeForConditionalGeneration'], image_token_id=9,
                           text_config=text, tie_word_embeddings=False, vision_config={'model_type': 'qwen3_vl_moe', 'depth': 2})}, y


def llama4_logits(w, stem, head, L=4):
    def attn(x, b, i):
        nope = (i + 1) % 4 == 0
        q, k, v = (heads(w.lin(x, f'{b}.self_attn.{c}_proj', n * 8), 8) for c, n in (('q', 4), ('k', 2), ('v', 2)))
        if not nope:
            f = freqs(8, 5e5)
            q, k = (rms(rotate(z, f, adjacent=True), 1e-5) for z in (q, k))
        else:
            q = q * (np.log1p(np.floor((np.arange(T) + 1.0) / 3)) * 0.1 + 1)[:, None, None]
        return w.lin(attend(q, k, v, mask=causal(T, chunk=0 if nope else 4)), f'{b}.self_attn.o_proj', H)

    def network(x, b, i):
        b += '.feed_forward'
        if i % 2 == 0:
            return mlp(w, x, b, FF)
        s = w.lin(x, f'{b}.router', 6)
        j = top(s, 2)
        g = spread(j, sigmoid(take(s, j)), 6)
        one = stacked(w, f'{b}.experts', 6, WIDE, turned=True)
        return sum(one(e, x * g[:, e:e + 1]) for e in range(6)) + mlp(w, x, f'{b}.shared_expert', WIDE)
    return pre(w, L, attn, network, 1e-5, stem=stem, head=head)


LLAMA4 = dict(hidden_act='silu', rms_norm_eps=1e-5, tie_word_embeddings=False, rope_theta=5e5, rope_scaling=None, attention_bias=False,
              num_experts_per_tok=1, num_local_experts=16, moe_layers=None, interleave_moe_layer_step=1, use_qk_norm=True,
              output_router_logits=False, router_aux_loss_coef=0.001, router_jitter_noise=0.0, no_rope_layers=None,
              no_rope_layer_interval=4, attention_chunk_size=8192, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1,
              intermediate_size_mlp=16384, head_dim=128)
LLAMA4_GIVEN = dict(SIZES, num_hidden_layers=4, head_dim=8, intermediate_size=WIDE, intermediate_size_mlp=FF, num_local_experts=6,
                    num_experts_per_tok=2, interleave_moe_layer_step=2, attention_chunk_size=4, floor_scale=3)


@case
def llama4_text(w):
    y = llama4_logits(w, 'model.', 'lm_head')
    c = variants('llama4_text', 'Llama4ForCausalLM', LLAMA4, LLAMA4_GIVEN, False)
    c['lists'] = dict(c['saved'], no_rope_layers=[1, 1, 1, 0], moe_layers=[1, 3], attn_temperature_tuning=4)
    return c, y


@case
def llama4(w):
    y = llama4_logits(w, 'language_model.model.', 'language_model.lm_head')
    return {'nested': dict(model_type='llama4', architectures=['Llama4ForConditionalGeneration'], boi_token_index=1,
                           text_config=dict(LLAMA4, **LLAMA4_GIVEN, model_type='llama4_text'),
                           vision_config={'model_type': 'llama4_vision_model'}, tie_word_embeddings=False)}, y


@case
def mimo_v2_flash(w):
    def attn(x, b, i):
        local = i != 1
        q = heads(w.lin(x, f'{b}.self_attn.q_proj', 4 * 12), 12)
        k, v = (heads(w.lin(x, f'{b}.self_attn.{c}_proj', (4 if local else 2) * d), d) for c, d in (('k', 12), ('v', 8)))
        f = freqs(4, 1e4 if local else 5e6)
        y = attend(rotate(q, f), rotate(k, f), v * 0.7, mask=causal(T, 4 if local else 0),
                   sinks=w(f'{b}.self_attn.attention_sink_bias', 4) if local else None)
        return w.lin(y, f'{b}.self_attn.o_proj', H)
    y = pre(w, 3, attn, noaux_net(w, 1, 6, 3, 0), 1e-5)
    given = dict(SIZES, num_hidden_layers=3, head_dim=12, v_head_dim=8, swa_num_attention_heads=4, swa_num_key_value_heads=4,
                 swa_head_dim=12, swa_v_head_dim=8, swa_rope_theta=1e4, rope_theta=5e6, partial_rotary_factor=0.334,
                 sliding_window=4, sliding_window_size=4, attention_chunk_size=4, hybrid_layer_pattern=[1, 0, 1],
                 hybrid_block_size=None, add_full_attention_sink_bias=False, add_swa_attention_sink_bias=True, attention_value_scale=0.7,
                 moe_layer_freq=[0, 1, 1], n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=WIDE,
                 n_shared_experts=None, routed_scaling_factor=None, scoring_func='sigmoid', topk_method='noaux_tc',
                 n_group=1, topk_group=1, norm_topk_prob=True, layernorm_epsilon=1e-5, hidden_act='silu', attention_bias=False,
                 tie_word_embeddings=False)
    return variants('mimo_v2_flash', 'MiMoV2FlashForCausalLM', {}, given, False), y


if __name__ == '__main__':
    sys.exit(run(sys.argv, CASES, Runner, Weights, False))
