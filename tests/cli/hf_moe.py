# SPDX-License-Identifier: GPL-3.0-or-later
# Small checkpoints with routed experts and plain attention: the program's logits against the
# arithmetic of the published modelling code (Hugging Face transformers, src/transformers/
# models/*/modeling_*.py and configuration_*.py, or the model's own repository).
# Usage: hf_moe.py NMBENCH FOLDER [MODEL_TYPE..]
import sys

import numpy as np

from hf_parts import *  # noqa: F403
from tiny_hf import Runner, Weights, frequencies, modern, variants

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


def main():
    nmbench, folder = sys.argv[1:3]
    r = Runner(nmbench, folder)
    for name in sys.argv[3:] or list(CASES):
        w = Weights(name)
        configs, want = CASES[name](w)
        r.check(name, configs, w, want)
    return r.done()


if __name__ == '__main__':
    sys.exit(main())
