# SPDX-License-Identifier: GPL-3.0-or-later
# Checkpoints of dense families whose layers are model.layers.N, and of the wrappers around
# them: logits of the program against the published modelling code's arithmetic, written anew
# here.  Sources: Hugging Face transformers, modeling_*.py and configuration_*.py of each
# family; the repositories of models that bring their own code.
# Usage: hf_dense.py NMBENCH FOLDER [NAME..]
import math
import sys

import numpy as np

from tiny_hf import (ACT, TOKENS, VOCAB, Cases, alibi, attend, causal, centred, frequencies, heads, rms, rotate,
                     softplus, variants)

H, D, T = 32, 8, len(TOKENS)
SIZES = dict(hidden_size=H, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=VOCAB)
GQA = dict(SIZES, num_key_value_heads=2)
ROPE = dict(rope_theta=10000.0, rope_scaling=None)
LLAMA = dict(hidden_act='silu', max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=False,
             attention_bias=False, **ROPE)


# ------------------------------------------------------------------ parts
def width(c):
    return c.get('head_dim') or c['hidden_size'] // c['num_attention_heads']


def turn(c, share=1.0, adjacent=False, **other):
    """How queries and keys of a model rotate."""
    s = c.get('rope_scaling')
    context = c.get('original_max_position_embeddings') or c['max_position_embeddings']
    if s and s.get('type', s.get('rope_type')) in ('longrope', 'su'):
        s = {'factor': c['max_position_embeddings'] / context, **s, 'type': 'longrope'}
    theta = other.get('theta', c.get('rope_theta'))
    f, size = frequencies(int(width(c) * share), theta, other.get('scaling', s), context)
    return lambda x: rotate(x, f, size, adjacent)


def attention(W, c, rope=None, bias=False, obias=False, norm=None, after=None, mask=None, scale=None, cap=0, out='o_proj',
              qkv=None, sub=None, clip=None, at='self_attn.'):
    """norm, after: on queries and keys, before and after the rotation; mask, rope by layer."""
    n, d = c['num_attention_heads'], width(c)
    kv = c.get('num_key_value_heads') or n

    def part(x, b, i):
        b += at
        if qkv:
            y = W.lin(x, b + qkv, (n + 2 * kv) * d, bias)
            q, k, v = (heads(y[:, s], d) for s in (slice(0, n * d), slice(n * d, (n + kv) * d), slice((n + kv) * d, None)))
        else:
            q, k, v = (heads(W.lin(x, f'{b}{s}_proj', m * d, bias), d) for s, m in (('q', n), ('k', kv), ('v', kv)))
        if clip:
            q, k, v = (np.clip(y, -clip, clip) for y in (q, k, v))
        if norm:
            q, k = norm(W, q, b, 'q'), norm(W, k, b, 'k')
        if rope and rope(i):
            q, k = rope(i)(q), rope(i)(k)
        if after:
            q, k = after(W, q, b, 'q'), after(W, k, b, 'k')
        y = attend(q, k, v, scale, mask(i) if mask else None, cap)
        if sub:
            y = sub(y, b)
        return W.lin(y, b + out, c['hidden_size'], obias)
    return part


def gated(W, c, act='silu', bias=False, names=('gate_proj', 'up_proj', 'down_proj'), at='mlp.', sub=None):
    def part(x, b, i):
        b += at
        n = c['intermediate_size']
        if len(names) == 2:
            g, u = np.split(W.lin(x, b + names[0], 2 * n, bias), 2, -1)
        else:
            g, u = W.lin(x, b + names[0], n, bias), W.lin(x, b + names[1], n, bias)
        y = ACT[act](g) * u
        return W.lin(sub(y, b) if sub else y, b + names[-1], c['hidden_size'], bias)
    return part


def plain(W, c, act, bias=False, names=('up_proj', 'down_proj'), at='mlp.'):
    def part(x, b, i):
        return W.lin(ACT[act](W.lin(x, b + at + names[0], c['intermediate_size'], bias)), b + at + names[1], c['hidden_size'],
                     bias)
    return part


def decoder(W, c, mix, feed, norm, place='pre', names=('input_layernorm', 'post_attention_layernorm'), stem='model.',
            embed='embed_tokens', last='norm', head='lm_head', scale=1.0, residual=1.0, hbias=False):
    h = W.embed(stem + embed, TOKENS, c['hidden_size'], c['vocab_size']) * scale
    for i in range(c['num_hidden_layers']):
        b = f'{stem}layers.{i}.'
        if place == 'pre':
            h = h + residual * mix(norm(h, b + names[0]), b, i)
            h = h + residual * feed(norm(h, b + names[1]), b, i)
        elif place == 'parallel':
            x = norm(h, b + names[0])
            h = h + mix(x, b, i) + feed(x, b, i)
        elif place == 'post':
            h = h + norm(mix(h, b, i), b + names[0])
            h = h + norm(feed(h, b, i), b + names[1])
        else:  # sandwich
            h = h + norm(mix(norm(h, b + names[0]), b, i), b + names[1])
            h = h + norm(feed(norm(h, b + names[2]), b, i), b + names[3])
    h = norm(h, stem + last)
    if callable(head):
        return head(h)
    if c.get('tie_word_embeddings'):
        return h @ W(stem + embed + '.weight', c['vocab_size'], c['hidden_size'], size=0.1).T
    return W.lin(h, head, c['vocab_size'], hbias)


def rmsnorm(W, c, offset=0.0, key='rms_norm_eps'):
    return lambda x, name: W.rms(x, name, c[key], offset)


def layernorm(W, c, key, bias=True, offset=0.0):
    return lambda x, name: W.layer(x, name, c[key], bias, offset)


def each(c, names='{}_norm', offset=0.0):
    """RMSNorm of every head."""
    return lambda W, x, b, which: W.rms(x, b + names.format(which), c['rms_norm_eps'], offset)


def over(c):
    """RMSNorm over all heads together."""
    return lambda W, x, b, which: W.rms(x.reshape(T, -1), f'{b}{which}_norm', c['rms_norm_eps']).reshape(x.shape)


def windows(c, types=None, on=True):
    local, full = causal(T, c['sliding_window'] or 0), causal(T)
    return lambda i: local if on and (types is None or types[i] == 'sliding_attention') else full


def every(n, last='full_attention', layers=2):
    return ['sliding_attention' if (i + 1) % n else last for i in range(layers)]


# ------------------------------------------------------------------ families
CASES = Cases()
case = CASES.add


def llama(W, c, **o):
    bias = c.get('attention_bias', False)
    rope = turn(c)
    o = {'bias': bias, 'obias': bias, 'rope': lambda i: rope, **o}
    return decoder(W, c, attention(W, c, **o), gated(W, c, c['hidden_act'], c.get('mlp_bias', False)), rmsnorm(W, c))


def junk(W):
    """Buffers that older checkpoints hold, and a part of another kind."""
    for i in range(2):
        W.raw(f'model.layers.{i}.self_attn.rotary_emb.inv_freq', 'F32', np.zeros(4, '<f4'))


C = dict(LLAMA, pretraining_tp=1, mlp_bias=False, head_dim=None)
case('llama', 'LlamaForCausalLM', C, GQA, llama, shards=3, extra=junk)
case('llama', 'LlamaForCausalLM', C, dict(GQA, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5, head_dim=12), llama, '-bias')
case('llama', 'LlamaForCausalLM', C, dict(SIZES, tie_word_embeddings=True), llama, '-tied')
L3 = dict(factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=40, rope_type='llama3')
case('llama', 'LlamaForCausalLM', C, dict(GQA, head_dim=16, rope_scaling=L3, rope_theta=500.0), llama, '-llama3')
case('llama', 'LlamaForCausalLM', C, dict(GQA, rope_scaling={'type': 'linear', 'factor': 4.0}), llama, '-linear')
case('llama', 'LlamaForCausalLM', C, dict(GQA, rope_scaling={'type': 'dynamic', 'factor': 4.0}, max_position_embeddings=6), llama,
     '-dynamic')
Y = {'type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 64}
case('llama', 'LlamaForCausalLM', C, dict(GQA, head_dim=16, rope_scaling=Y, max_position_embeddings=256), llama, '-yarn')
Y = dict(Y, rope_type='yarn', beta_fast=16, beta_slow=2, attention_factor=1.2)
case('llama', 'LlamaForCausalLM', C, dict(GQA, head_dim=16, rope_scaling=Y, max_position_embeddings=256), llama, '-yarn2')
case('llama', 'LlamaForCausalLM', C, dict(SIZES, tie_word_embeddings=True), llama, '-head',
     rename=lambda n: n.replace('model.embed_tokens', 'lm_head'))
case('llama', 'LlamaModel', C, dict(GQA, tie_word_embeddings=True), lambda W, c: bare(W, c), '-bare')


def bare(W, c):
    """A checkpoint of the model without its head: no stem."""
    o = dict(rope=lambda i: turn(c))
    return decoder(W, c, attention(W, c, **o), gated(W, c), rmsnorm(W, c), stem='')


for name, cls in (('Yi', 'YiForCausalLM'), ('aquila', 'AquilaForCausalLM'), ('xverse', 'XverseForCausalLM')):
    case(name, cls, dict(LLAMA), GQA if name != 'xverse' else SIZES, llama)
case('Yi', 'YiForCausalLM', dict(LLAMA), GQA, lambda W, c: decoder(
    W, c, attention(W, c, rope=lambda i: turn(c)), gated(W, c), rmsnorm(W, c), names=('ln1', 'ln2')), '-old')
PLAIN = {k: v for k, v in LLAMA.items() if k != 'attention_bias'}
case('internlm', 'InternLMForCausalLM', dict(PLAIN, bias=True, rotary={'base': 10000, 'type': 'dynamic'}), SIZES,
     lambda W, c: llama(W, c, bias=c['bias'], obias=c['bias']), v5=False)
case('internlm', 'InternLMForCausalLM', dict(PLAIN, bias=True), dict(SIZES, bias=False),
     lambda W, c: llama(W, c, bias=c['bias'], obias=c['bias']), '-nobias')


def internlm3(W, c):
    return decoder(W, c, attention(W, c, lambda i: turn(c), c['qkv_bias'], c['bias']), gated(W, c, bias=c['bias']), rmsnorm(W, c))


C = dict(PLAIN, qkv_bias=False, bias=False, head_dim=None)
case('internlm3', 'InternLM3ForCausalLM', C, dict(GQA, head_dim=12), internlm3)
case('internlm3', 'InternLM3ForCausalLM', C, dict(GQA, head_dim=12, qkv_bias=True, bias=True), internlm3, '-bias')


def internlm2(W, c):
    n, kv, d = c['num_attention_heads'], c['num_key_value_heads'], width(c)
    g, rope = n // kv, turn(c)

    def mix(x, b, i):
        y = W.lin(x, b + 'attention.wqkv', (n + 2 * kv) * d, c['bias']).reshape(T, kv, g + 2, d)
        q, k, v = y[:, :, :g].reshape(T, n, d), y[:, :, g], y[:, :, g + 1]
        return W.lin(attend(rope(q), rope(k), v), b + 'attention.wo', c['hidden_size'], c['bias'])
    return decoder(W, c, mix, gated(W, c, names=('w1', 'w3', 'w2'), at='feed_forward.'), rmsnorm(W, c),
                   names=('attention_norm', 'ffn_norm'), embed='tok_embeddings', head='output')


C = dict(PLAIN, bias=True)
case('internlm2', 'InternLM2ForCausalLM', C, dict(GQA, bias=False), internlm2)
case('internlm2', 'InternLM2ForCausalLM', C, dict(GQA, rope_scaling={'type': 'dynamic', 'factor': 2.0}), internlm2, '-bias')


# Mistral and its kin
def mistral(W, c, **o):
    return llama(W, c, mask=windows(c), **o)


C = dict(LLAMA, num_key_value_heads=8, max_position_embeddings=131072, sliding_window=4096, head_dim=None)
case('mistral', 'MistralForCausalLM', C, dict(GQA, sliding_window=4), mistral)
case('mistral', 'MistralForCausalLM', C, dict(SIZES, hidden_size=64, num_attention_heads=8, sliding_window=None), mistral, '-null')
case('mistral', 'MistralForCausalLM', C, dict(GQA, head_dim=12, sliding_window=3), mistral, '-dim')
case('ministral', 'MinistralForCausalLM', dict(C, layer_types=None), dict(GQA, sliding_window=4), mistral)
case('ministral', 'MinistralForCausalLM', dict(C, layer_types=None),
     dict(GQA, sliding_window=4, layer_types=['full_attention', 'sliding_attention']),
     lambda W, c: llama(W, c, mask=windows(c, c['layer_types'])), '-types')
MIN3 = {'rope_type': 'yarn', 'type': 'yarn', 'rope_theta': 1e6, 'factor': 16.0, 'original_max_position_embeddings': 4,
        'max_position_embeddings': 64, 'beta_fast': 32.0, 'beta_slow': 1.0, 'mscale_all_dim': 1.0, 'mscale': 1.0,
        'llama_4_scaling_beta': 0.1}


def ministral3(W, c):
    """Queries grow with the position: 1 + beta * ln(1 + floor(position / original))."""
    s = c['rope_parameters']
    f, size = frequencies(width(c), s['rope_theta'], s)
    grow = 1 + s['llama_4_scaling_beta'] * np.log(1 + np.floor(np.arange(T) / s['original_max_position_embeddings']))
    return llama(W, dict(c, **ROPE), rope=lambda i: lambda x: rotate(x, f, size), after=lambda W, x, b, which: (
        x * grow[:, None, None] if which == 'q' else x))


C = dict(vocab_size=131072, num_key_value_heads=8, head_dim=128, hidden_act='silu', max_position_embeddings=262144,
         rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=None, rope_parameters=None)
case('ministral3', 'Ministral3ForCausalLM', C, dict(GQA, head_dim=16, rope_parameters=MIN3), ministral3, v5=False)
MIN3D = dict(MIN3, original_max_position_embeddings=16384)
case('ministral3', 'Ministral3ForCausalLM', dict(C, rope_parameters=MIN3D), dict(GQA, head_dim=16), ministral3, '-class', v5=False)

# Qwen
C = dict(LLAMA, num_key_value_heads=32, max_position_embeddings=32768, use_sliding_window=False, sliding_window=4096,
         max_window_layers=28)
C.pop('attention_bias')


def qwen2(W, c, **o):
    types = ['sliding_attention' if i >= c['max_window_layers'] else 'full_attention' for i in range(4)]
    return llama(W, c, mask=windows(c, types, c['use_sliding_window']), **{'bias': True, 'obias': False, **o})


case('qwen2', 'Qwen2ForCausalLM', C, GQA, qwen2)
case('qwen2', 'Qwen2ForCausalLM', C, dict(GQA, use_sliding_window=True, sliding_window=4, max_window_layers=1, num_hidden_layers=3),
     qwen2, '-window')
case('qwen2', 'Qwen2ForCausalLM', C, dict(GQA, tie_word_embeddings=True, rope_theta=1e6, sliding_window=4, max_window_layers=0),
     qwen2, '-tied')
case('mimo', 'MiMoForCausalLM', C, dict(GQA, num_nextn_predict_layers=1), qwen2,
     extra=lambda W: [W.raw(f'model.mtp_layers.0.{n}.weight', 'F32', np.ones(H, '<f4')) for n in ('input_layernorm', 'token_layernorm')])


def qwen3(W, c, **o):
    b = c['attention_bias']
    return qwen2(W, c, bias=b, obias=b, norm=each(c), **o)


C = dict(C, attention_bias=False, head_dim=128)
case('qwen3', 'Qwen3ForCausalLM', C, dict(GQA, head_dim=12), qwen3)
case('qwen3', 'Qwen3ForCausalLM', C, dict(GQA, num_attention_heads=2, num_key_value_heads=1, attention_bias=True,
                                          tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, max_window_layers=1), qwen3, '-bias')


# Gemma
def gemma(W, c, place='pre', names=('input_layernorm', 'post_attention_layernorm'), **o):
    bias = c.get('attention_bias', False)
    rope = o.pop('rope', None) or (lambda i: turn(c))
    scale = c['query_pre_attn_scalar']**-0.5 if 'query_pre_attn_scalar' in c else None
    y = decoder(W, c, attention(W, c, rope, bias, bias, scale=scale, cap=c.get('attn_logit_softcapping') or 0, **o),
                gated(W, c, 'gelu_pytorch_tanh'), rmsnorm(W, c, 1.0), place, names, scale=math.sqrt(c['hidden_size']))
    cap = c.get('final_logit_softcapping')
    return cap * np.tanh(y / cap) if cap else y


C = dict(LLAMA, head_dim=256, num_key_value_heads=16, hidden_act='gelu_pytorch_tanh', hidden_activation=None, max_position_embeddings=8192,
         tie_word_embeddings=True)
case('gemma', 'GemmaForCausalLM', C, dict(GQA, head_dim=16), gemma)
case('gemma', 'GemmaForCausalLM', C, dict(GQA, num_attention_heads=2, num_key_value_heads=1), gemma, '-dim')
FOUR = ('input_layernorm', 'post_attention_layernorm', 'pre_feedforward_layernorm', 'post_feedforward_layernorm')
C = dict(C, num_key_value_heads=4, hidden_activation='gelu_pytorch_tanh', query_pre_attn_scalar=256, sliding_window=4096,
         final_logit_softcapping=30.0, attn_logit_softcapping=50.0)
C.pop('hidden_act')


def gemma2(W, c):
    types = c.get('layer_types') or every(2, layers=c['num_hidden_layers'])
    return gemma(W, c, 'sandwich', FOUR, mask=windows(c, types))


case('gemma2', 'Gemma2ForCausalLM', C, dict(GQA, head_dim=16, query_pre_attn_scalar=10, sliding_window=4, num_hidden_layers=3), gemma2)
case('gemma2', 'Gemma2ForCausalLM', C, dict(SIZES, num_attention_heads=8, head_dim=12, sliding_window=4, attn_logit_softcapping=None,
                                            final_logit_softcapping=None, attention_bias=True), gemma2, '-nocap')
case('vaultgemma', 'VaultGemmaForCausalLM', C, dict(GQA, head_dim=16, sliding_window=4),
     lambda W, c: gemma(W, c, names=('input_layernorm', 'pre_feedforward_layernorm'), mask=windows(c, every(2))))


def gemma3(W, c, **o):
    types = c.get('layer_types') or every(c.get('sliding_window_pattern', 6), layers=c['num_hidden_layers'])
    full, local = turn(c), turn(c, theta=c['rope_local_base_freq'], scaling=None)
    return gemma(W, c, 'sandwich', FOUR, mask=windows(c, types), norm=each(c, offset=1.0),
                 rope=lambda i: local if types[i] == 'sliding_attention' else full)


C = dict(C, vocab_size=262208, rope_theta=1e6, max_position_embeddings=131072, final_logit_softcapping=None, attn_logit_softcapping=None,
         rope_local_base_freq=10000.0, sliding_window_pattern=6)
case('gemma3_text', 'Gemma3ForCausalLM', C, dict(GQA, head_dim=16, sliding_window=4, num_hidden_layers=7), gemma3, v5=False)
case('gemma3_text', 'Gemma3ForCausalLM', C, dict(GQA, head_dim=16, sliding_window=4, rope_scaling={'rope_type': 'linear', 'factor': 8.0},
                                                 layer_types=every(2), final_logit_softcapping=20.0), gemma3, '-scaled', v5=False)


# LayerNorm, parallel parts, plain networks
def phi(W, c):
    d = width(c)
    norm = (lambda W, x, b, which: W.layer(x, f'{b}{which}_layernorm', c['layer_norm_eps'])) if c['qk_layernorm'] else None
    mix = attention(W, c, lambda i: turn(c, c['partial_rotary_factor']), True, True, norm, out='dense')
    return decoder(W, c, mix, plain(W, c, c['hidden_act'], True, ('fc1', 'fc2')), layernorm(W, c, 'layer_norm_eps'), 'parallel',
                   last='final_layernorm', hbias=True)


C = dict(LLAMA, num_key_value_heads=None, hidden_act='gelu_new', layer_norm_eps=1e-5, partial_rotary_factor=0.5, qk_layernorm=False,
         resid_pdrop=0.0, embd_pdrop=0.0)
C.pop('rms_norm_eps'), C.pop('attention_bias')
case('phi', 'PhiForCausalLM', C, SIZES, phi)
case('phi', 'PhiForCausalLM', C, dict(GQA, qk_layernorm=True, partial_rotary_factor=0.25, hidden_size=64), phi, '-norms')


def phi3(W, c):
    rope = turn(c, c.get('partial_rotary_factor', 1.0))
    return decoder(W, c, attention(W, c, lambda i: rope, qkv='qkv_proj', mask=windows(c)),
                   gated(W, c, names=('gate_up_proj', 'down_proj')), rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=None, rms_norm_eps=1e-5, max_position_embeddings=4096, original_max_position_embeddings=4096,
         sliding_window=None, resid_pdrop=0.0, embd_pdrop=0.0, partial_rotary_factor=1.0)
case('phi3', 'Phi3ForCausalLM', C, dict(GQA, sliding_window=4), phi3)
LONG = {'type': 'longrope', 'short_factor': [1.0, 1.1, 1.5, 2.0], 'long_factor': [1.0, 3.0, 5.0, 9.0]}
case('phi3', 'Phi3ForCausalLM', C, dict(SIZES, rope_scaling=LONG, max_position_embeddings=64, original_max_position_embeddings=16), phi3,
     '-short', v5=True)
case('phi3', 'Phi3ForCausalLM', C, dict(SIZES, rope_scaling=LONG, max_position_embeddings=64, original_max_position_embeddings=6), phi3,
     '-long', v5=True)
PART = {k: v if k == 'type' else v[:3] for k, v in LONG.items()}
case('phi3', 'Phi3ForCausalLM', C, dict(GQA, rope_scaling=PART, max_position_embeddings=64, original_max_position_embeddings=6,
                                        partial_rotary_factor=0.75, tie_word_embeddings=True), phi3, '-partial', v5=True)


def stablelm(W, c):
    eps, bias = c['layer_norm_eps'], c['use_qkv_bias']

    def norm(W, x, b, which):
        return np.stack([W.layer(x[:, j], f'{b}{which}_layernorm.norms.{j}', eps, False) for j in range(x.shape[1])], 1)
    mix = attention(W, c, lambda i: turn(c, c['partial_rotary_factor']), bias, False, norm if c['qk_layernorm'] else None)
    return decoder(W, c, mix, gated(W, c), layernorm(W, c, 'layer_norm_eps'), 'parallel' if c['use_parallel_residual'] else 'pre')


C = dict(LLAMA, num_key_value_heads=32, max_position_embeddings=4096, layer_norm_eps=1e-5, use_qkv_bias=False, qk_layernorm=False,
         use_parallel_residual=False, hidden_dropout=0.0, partial_rotary_factor=0.25)
C.pop('rms_norm_eps'), C.pop('attention_bias')
case('stablelm', 'StableLmForCausalLM', C, dict(GQA, hidden_size=64, use_qkv_bias=True), stablelm)
case('stablelm', 'StableLmForCausalLM', C, dict(GQA, hidden_size=64, qk_layernorm=True, use_parallel_residual=True), stablelm, '-parallel')


def starcoder2(W, c):
    bias = c['use_bias']
    return decoder(W, c, attention(W, c, lambda i: turn(c), bias, bias, mask=windows(c)), plain(W, c, c['hidden_act'], bias, ('c_fc', 'c_proj')),
                   layernorm(W, c, 'norm_epsilon'))


C = dict(LLAMA, num_key_value_heads=2, hidden_act='gelu_pytorch_tanh', max_position_embeddings=4096, norm_epsilon=1e-5, use_bias=True,
         sliding_window=None, residual_dropout=0.0, embedding_dropout=0.0, tie_word_embeddings=True)
C.pop('rms_norm_eps'), C.pop('attention_bias')
case('starcoder2', 'Starcoder2ForCausalLM', C, dict(SIZES, sliding_window=4), starcoder2)
case('starcoder2', 'Starcoder2ForCausalLM', C, dict(SIZES, use_bias=False, tie_word_embeddings=False), starcoder2, '-nobias')


def olmo(W, c):
    b = c['attention_bias']
    return decoder(W, c, attention(W, c, lambda i: turn(c), b, b, clip=c['clip_qkv']), gated(W, c), lambda x, name: centred(x, 1e-5))


C = dict(LLAMA, num_key_value_heads=None, clip_qkv=None)
C.pop('rms_norm_eps')
case('olmo', 'OlmoForCausalLM', C, GQA, olmo)
case('olmo', 'OlmoForCausalLM', C, dict(SIZES, clip_qkv=0.6, attention_bias=True, tie_word_embeddings=True), olmo, '-clip')


def olmo2(W, c, **o):
    b = c['attention_bias']
    return decoder(W, c, attention(W, c, **{'rope': lambda i: turn(c), **o}, bias=b, obias=b, norm=over(c)), gated(W, c), rmsnorm(W, c), 'post',
                   ('post_attention_layernorm', 'post_feedforward_layernorm'))


C = dict(LLAMA, num_key_value_heads=None, rms_norm_eps=1e-5)
case('olmo2', 'Olmo2ForCausalLM', C, GQA, olmo2)
case('olmo2', 'Olmo2ForCausalLM', C, dict(SIZES, attention_bias=True), olmo2, '-bias')


def olmo3(W, c):
    """The scaling is for layers without a window."""
    types = c['layer_types'] or every(4, layers=c['num_hidden_layers'])
    local, full = turn(c, scaling=None), turn(c)
    return olmo2(W, c, mask=windows(c, types), rope=lambda i: local if types[i] == 'sliding_attention' else full)


C = dict(C, sliding_window=4096, layer_types=None)
case('olmo3', 'Olmo3ForCausalLM', C, dict(GQA, sliding_window=4, num_hidden_layers=4), olmo3)
case('olmo3', 'Olmo3ForCausalLM', C, dict(SIZES, sliding_window=4, layer_types=every(2), max_position_embeddings=64, rope_theta=500000.0,
                                          rope_scaling={'rope_type': 'yarn', 'factor': 8.0, 'original_max_position_embeddings': 8,
                                                        'beta_fast': 32, 'beta_slow': 1, 'attention_factor': 1.2079}), olmo3, '-yarn', v5=False)


def cohere(W, c, **o):
    b, eps = c['attention_bias'], c['layer_norm_eps']

    def norm(W, x, b, which):
        w = W(f'{b}{which}_norm.weight', *x.shape[1:], size=0.2, around=1)
        return centred(x, eps) * w
    rope = turn(c, adjacent=True)
    mix = attention(W, c, bias=b, obias=b, **{'rope': lambda i: rope, 'norm': norm if c.get('use_qk_norm') else None, **o})
    return decoder(W, c, mix, gated(W, c), layernorm(W, c, 'layer_norm_eps', False), 'parallel') * c['logit_scale']


C = dict(LLAMA, num_key_value_heads=None, max_position_embeddings=8192, layer_norm_eps=1e-5, logit_scale=0.0625, use_qk_norm=False,
         tie_word_embeddings=True)
C.pop('rms_norm_eps')
case('cohere', 'CohereForCausalLM', C, SIZES, cohere)
case('cohere', 'CohereForCausalLM', C, dict(GQA, use_qk_norm=True, attention_bias=True, logit_scale=0.25), cohere, '-norms')


def cohere2(W, c):
    types = c.get('layer_types') or every(c.get('sliding_window_pattern') or 4, layers=c['num_hidden_layers'])
    rope = turn(c, adjacent=True)
    return cohere(W, c, mask=windows(c, types), rope=lambda i: rope if types[i] == 'sliding_attention' else None)


C.pop('use_qk_norm')
C = dict(C, sliding_window=4096, sliding_window_pattern=4)
case('cohere2', 'Cohere2ForCausalLM', C, dict(GQA, sliding_window=4, num_hidden_layers=4), cohere2)
case('cohere2', 'Cohere2ForCausalLM', dict(C, layer_types=None), dict(GQA, sliding_window=4, layer_types=every(2), head_dim=12), cohere2, '-types')


def granite(W, c):
    b = c['attention_bias']
    mix = attention(W, c, lambda i: turn(c), b, b, scale=c['attention_multiplier'])
    return decoder(W, c, mix, gated(W, c, bias=c['mlp_bias']), rmsnorm(W, c), scale=c['embedding_multiplier'],
                   residual=c['residual_multiplier']) / c['logits_scaling']


C = dict(LLAMA, num_key_value_heads=None, mlp_bias=False, embedding_multiplier=1.0, logits_scaling=1.0, residual_multiplier=1.0,
         attention_multiplier=1.0)
case('granite', 'GraniteForCausalLM', C, dict(GQA, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
                                              attention_multiplier=0.2), granite)
case('granite', 'GraniteForCausalLM', C, dict(SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), granite, '-class')


def nemotron(W, c):
    b = c['attention_bias']
    return decoder(W, c, attention(W, c, lambda i: turn(c, c['partial_rotary_factor']), b, b), plain(W, c, c['hidden_act'], c['mlp_bias']),
                   layernorm(W, c, 'norm_eps', offset=1.0))


C = dict(LLAMA, num_key_value_heads=None, head_dim=None, hidden_act='relu2', max_position_embeddings=4096, norm_eps=1e-5,
         partial_rotary_factor=0.5, mlp_bias=False)
C.pop('rms_norm_eps')
case('nemotron', 'NemotronForCausalLM', C, GQA, nemotron)
case('nemotron', 'NemotronForCausalLM', C, dict(GQA, head_dim=16, attention_bias=True, mlp_bias=True), nemotron, '-bias')


def persimmon(W, c):
    n, d, rope = c['num_attention_heads'], width(c), turn(c, c['partial_rotary_factor'])

    def mix(x, b, i):
        b += 'self_attn.'
        q, k, v = W.lin(x, b + 'query_key_value', 3 * n * d, True).reshape(T, n, 3, d).transpose(2, 0, 1, 3)
        if c['qk_layernorm']:
            q, k = W.layer(q, b + 'q_layernorm', c['layer_norm_eps']), W.layer(k, b + 'k_layernorm', c['layer_norm_eps'])
        return W.lin(attend(rope(q), rope(k), v), b + 'dense', c['hidden_size'], True)
    return decoder(W, c, mix, plain(W, c, c['hidden_act'], True, ('dense_h_to_4h', 'dense_4h_to_h')), layernorm(W, c, 'layer_norm_eps'),
                   last='final_layernorm')


C = dict(LLAMA, hidden_act='relu2', max_position_embeddings=16384, layer_norm_eps=1e-5, rope_theta=25000.0, qk_layernorm=True,
         hidden_dropout=0.0, partial_rotary_factor=0.5)
C.pop('rms_norm_eps'), C.pop('attention_bias')
case('persimmon', 'PersimmonForCausalLM', C, SIZES, persimmon)
case('persimmon', 'PersimmonForCausalLM', C, dict(SIZES, qk_layernorm=False), persimmon, '-nonorm')


def glm(W, c, place='pre', names=('input_layernorm', 'post_attention_layernorm')):
    rope = turn(c, c['partial_rotary_factor'], adjacent=True)
    return decoder(W, c, attention(W, c, lambda i: rope, c['attention_bias']), gated(W, c, names=('gate_up_proj', 'down_proj')),
                   rmsnorm(W, c), place, names)


C = dict(LLAMA, num_key_value_heads=2, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1.5625e-07, attention_bias=True,
         partial_rotary_factor=0.5)
case('glm', 'GlmForCausalLM', C, dict(SIZES, head_dim=16), glm)
case('glm', 'GlmForCausalLM', C, dict(SIZES, num_attention_heads=2, attention_bias=False), glm, '-dim')
case('glm4', 'Glm4ForCausalLM', C, dict(SIZES, head_dim=16), lambda W, c: glm(W, c, 'sandwich', (
    'input_layernorm', 'post_self_attn_layernorm', 'post_attention_layernorm', 'post_mlp_layernorm')))


# Baichuan
def baichuan(W, c):
    """The 13B models have ALiBi; the head of Baichuan2 has rows of unit length."""
    rope = turn(dict(c, **ROPE)) if 'max_position_embeddings' in c else None
    mask = causal(T) + (0 if rope else alibi(T, c['num_attention_heads']))
    mix = attention(W, c, lambda i: rope, qkv='W_pack', mask=lambda i: mask)

    def head(h):
        w = W('lm_head.weight', c['vocab_size'], c['hidden_size'])
        return h @ (w / np.sqrt((w * w).sum(-1, keepdims=True)) if 'z_loss_weight' in c else w).T
    return decoder(W, c, mix, gated(W, c), rmsnorm(W, c), head=head)


C = dict(hidden_act='silu', rms_norm_eps=1e-6, tie_word_embeddings=False)
case('baichuan', 'BaiChuanForCausalLM', C, dict(SIZES, max_position_embeddings=4096), baichuan, '-7b')
case('baichuan', 'BaichuanForCausalLM', dict(C, gradient_checkpointing=False), dict(SIZES, model_max_length=4096, hidden_size=48, num_attention_heads=6),
     baichuan, '-13b')
case('baichuan', 'BaichuanForCausalLM', C, dict(SIZES, max_position_embeddings=4096, model_max_length=4096, z_loss_weight=0), baichuan, '2-7b')
case('baichuan', 'BaichuanForCausalLM', C, dict(SIZES, model_max_length=4096, z_loss_weight=0), baichuan, '2-13b')


# others
def orion(W, c):
    return decoder(W, c, attention(W, c, lambda i: turn(c)), gated(W, c), layernorm(W, c, 'rms_norm_eps'))


case('orion', 'OrionForCausalLM', dict(LLAMA, rms_norm_eps=1e-5), GQA, orion)


def minicpm(W, c):
    y = decoder(W, c, attention(W, c, lambda i: turn(c)), gated(W, c), rmsnorm(W, c), scale=c['scale_emb'],
                residual=c['scale_depth'] / math.sqrt(c['num_hidden_layers']))
    return y / (c['hidden_size'] / c['dim_model_base'])


C = dict(LLAMA, tie_word_embeddings=True, scale_emb=1, dim_model_base=1, scale_depth=1)
case('minicpm', 'MiniCPMForCausalLM', C, dict(SIZES, scale_emb=12, dim_model_base=16, scale_depth=1.4), minicpm)
case('minicpm', 'MiniCPMForCausalLM', C, GQA, minicpm, '-class')


def exaone4(W, c):
    types = c.get('layer_types') or every(c['sliding_window_pattern'], layers=c['num_hidden_layers'])
    rope, window = turn(c), c['sliding_window']
    return decoder(W, c, attention(W, c, lambda i: rope if window is None or types[i] == 'sliding_attention' else None, norm=each(c),
                                   mask=windows(c, types)), gated(W, c), rmsnorm(W, c), 'post',
                   ('post_attention_layernorm', 'post_feedforward_layernorm'))


C = dict(LLAMA, num_key_value_heads=32, rms_norm_eps=1e-5, sliding_window=4096, sliding_window_pattern=4, layer_types=None)
C.pop('attention_bias')
case('exaone4', 'Exaone4ForCausalLM', C, dict(GQA, sliding_window=4, num_hidden_layers=4), exaone4)
case('exaone4', 'Exaone4ForCausalLM', C, dict(GQA, sliding_window=None, sliding_window_pattern=None, layer_types=['full_attention'] * 2), exaone4,
     '-full')
case('exaone4', 'Exaone4ForCausalLM', C, dict(GQA, sliding_window=4, sliding_window_pattern='LLG', num_hidden_layers=3, layer_types=every(3, layers=3)),
     exaone4, '-LLG')


def smollm3(W, c):
    rope = turn(c)
    on = c['no_rope_layers'] or [int((i + 1) % c['no_rope_layer_interval'] != 0) for i in range(c['num_hidden_layers'])]
    types = c['layer_types'] or ['sliding_attention' if c['use_sliding_window'] and not o else 'full_attention' for o in on]
    return llama(W, c, rope=lambda i: rope if on[i] else None, mask=windows(c, types))


C = dict(LLAMA, num_key_value_heads=4, max_position_embeddings=32768, rope_theta=2000000.0, use_sliding_window=False, sliding_window=None,
         no_rope_layers=None, no_rope_layer_interval=4, layer_types=None, mlp_bias=False, tie_word_embeddings=True)
case('smollm3', 'SmolLM3ForCausalLM', C, dict(SIZES, num_hidden_layers=4), smollm3)
case('smollm3', 'SmolLM3ForCausalLM', C, dict(GQA, no_rope_layers=[0, 1], attention_bias=True, mlp_bias=True, tie_word_embeddings=False), smollm3,
     '-list')


def ernie(W, c):
    b = c['use_bias']
    rope = turn(c, adjacent=True)
    return decoder(W, c, attention(W, c, lambda i: rope, b, b), gated(W, c, bias=b), rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=4, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0, use_bias=False, head_dim=128,
         tie_word_embeddings=True)
C.pop('attention_bias')
case('ernie4_5', 'Ernie4_5ForCausalLM', C, dict(SIZES, head_dim=12), ernie)
case('ernie4_5', 'Ernie4_5ForCausalLM', C, dict(GQA, num_attention_heads=2, num_key_value_heads=1, use_bias=True), ernie, '-bias')


def seed_oss(W, c):
    return decoder(W, c, attention(W, c, lambda i: turn(c), c['attention_bias'], c['attention_out_bias']), gated(W, c, bias=c['mlp_bias']),
                   rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=8, max_position_embeddings=524288, attention_bias=True, attention_out_bias=False, mlp_bias=False,
         head_dim=128, residual_dropout=0.1)
case('seed_oss', 'SeedOssForCausalLM', C, dict(GQA, head_dim=12), seed_oss)
case('seed_oss', 'SeedOssForCausalLM', C, dict(GQA, num_attention_heads=2, num_key_value_heads=1, attention_out_bias=True, mlp_bias=True),
     seed_oss, '-bias')


def arcee(W, c):
    b = c['attention_bias']
    return decoder(W, c, attention(W, c, lambda i: turn(c), b, b), plain(W, c, c['hidden_act'], c['mlp_bias']), rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=None, hidden_act='relu2', max_position_embeddings=4096, rms_norm_eps=1e-5, mlp_bias=False, head_dim=None)
case('arcee', 'ArceeForCausalLM', C, GQA, arcee)
case('arcee', 'ArceeForCausalLM', C, dict(GQA, attention_bias=True, mlp_bias=True), arcee, '-bias')


def helium(W, c):
    rope = turn(c, adjacent=True)
    return decoder(W, c, attention(W, c, lambda i: rope, c['attention_bias']), gated(W, c, bias=c['mlp_bias']), rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=20, head_dim=128, max_position_embeddings=4096, rms_norm_eps=1e-8, rope_theta=100000.0, mlp_bias=False)
case('helium', 'HeliumForCausalLM', C, dict(GQA, head_dim=12), helium)
case('helium', 'HeliumForCausalLM', C, dict(GQA, num_attention_heads=2, num_key_value_heads=1, attention_bias=True, mlp_bias=True), helium, '-bias')


def apertus(W, c):
    def feed(x, b, i):
        b += 'mlp.'
        y = W.lin(x, b + 'up_proj', c['intermediate_size'])
        p = softplus(W(b + 'act_fn.alpha_p', 1, size=0.3))
        n = 0.5 + softplus(W(b + 'act_fn.alpha_n', 1, size=0.3))
        W.put(b + 'act_fn.beta', np.array(0.5), 'F32'), W.put(b + 'act_fn.eps', np.array(-1e-6), 'F32')
        y = np.where(y > 0, p * y * y, n * (np.expm1(np.minimum(y, -1e-6)) - y)) + 0.5 * y
        return W.lin(y, b + 'down_proj', c['hidden_size'])
    b = c['attention_bias']
    return decoder(W, c, attention(W, c, lambda i: turn(c), b, b, each(c)), feed, rmsnorm(W, c),
                   names=('attention_layernorm', 'feedforward_layernorm'))


A3 = dict(rope_type='llama3', factor=8.0, original_max_position_embeddings=8192, low_freq_factor=1.0, high_freq_factor=4.0)
C = dict(LLAMA, num_key_value_heads=None, hidden_act='xielu', max_position_embeddings=65536, rms_norm_eps=1e-5, rope_theta=12000000.0,
         rope_scaling=A3)
case('apertus', 'ApertusForCausalLM', C, GQA, apertus)


def diffllama(W, c):
    n, kv, d, rope = c['num_attention_heads'], c['num_key_value_heads'], width(c), turn(c)

    def mix(x, b, i):
        b += 'self_attn.'
        q, k, v = (heads(W.lin(x, f'{b}{s}_proj', m * d), d) for s, m in (('q', n), ('k', kv), ('v', kv)))
        q, k = rope(q), rope(k)
        k, v = k.repeat(n // kv, 1), v.repeat(n // kv, 1)
        v = np.concatenate(np.split(v, 2, 1), -1)
        y = attend(q, k, np.concatenate([v, v], 1)).reshape(T, n, 2 * d)
        lam = [np.exp((W(f'{b}lambda_q{j}', d, size=0.1) * W(f'{b}lambda_k{j}', d, size=0.1)).sum()) for j in (1, 2)]
        init = 0.8 - 0.6 * math.exp(-0.3 * i)
        y1, y2 = np.split(y, 2, 1)
        y = (1 - init) * rms(y1 - (lam[0] - lam[1] + init) * y2, c['rms_norm_eps'])
        return W.lin(y.reshape(T, -1), b + 'o_proj', c['hidden_size'])
    return decoder(W, c, mix, gated(W, c), rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=None, rms_norm_eps=1e-5, lambda_std_dev=0.1, head_dim=None)
case('diffllama', 'DiffLlamaForCausalLM', C, dict(GQA, num_hidden_layers=3), diffllama)
case('diffllama', 'DiffLlamaForCausalLM', C, dict(SIZES, num_attention_heads=8, num_key_value_heads=4), diffllama, '-groups')


def hunyuan(W, c):
    b, s = c['attention_bias'], c['rope_scaling']
    d = width(c)
    theta = c['rope_theta'] * (s['alpha']**(d / (d - 2)) if s else 1)
    rope = turn(c, theta=theta, scaling=None)
    return llama(W, c, rope=lambda i: rope, after=lambda W, x, b, which: W.rms(
        x, b + {'q': 'query', 'k': 'key'}[which] + '_layernorm', c['rms_norm_eps']))


C = dict(LLAMA, num_key_value_heads=None, rms_norm_eps=1e-5, pretraining_tp=1, head_dim=None)
case('hunyuan_v1_dense', 'HunYuanDenseV1ForCausalLM', C, dict(GQA, head_dim=12), hunyuan)
HY = {'type': 'dynamic', 'alpha': 1000.0, 'factor': 1.0, 'beta_fast': 32, 'beta_slow': 1, 'mscale': 1.0, 'mscale_all_dim': 0.0}
case('hunyuan_v1_dense', 'HunYuanDenseV1ForCausalLM', C, dict(GQA, rope_scaling=HY, tie_word_embeddings=True, attention_bias=True), hunyuan, '-alpha')


def bitnet(W, c):
    sub = lambda name: lambda y, b: W.rms(y, b + name, c['rms_norm_eps'])
    return decoder(W, c, attention(W, c, lambda i: turn(c), sub=sub('attn_sub_norm')), gated(W, c, c['hidden_act'], sub=sub('ffn_sub_norm')),
                   rmsnorm(W, c))


C = dict(LLAMA, num_key_value_heads=None, hidden_act='relu2', rms_norm_eps=1e-5, rope_theta=500000.0)
case('bitnet', 'BitNetForCausalLM', C, GQA, bitnet)


def cwm(W, c):
    types = c['layer_types'] or ['full_attention' if i % 4 == 0 else 'sliding_attention' for i in range(c['num_hidden_layers'])]
    return llama(W, c, mask=windows(c, types))


W3 = dict(rope_type='llama3', factor=16.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192)
C = dict(LLAMA, num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-5, rope_theta=1000000.0, max_position_embeddings=131072, sliding_window=8192,
         layer_types=None, rope_scaling=W3)
case('cwm', 'CwmForCausalLM', C, dict(GQA, head_dim=16, sliding_window=4, num_hidden_layers=5), cwm)


def jais2(W, c):
    return decoder(W, c, attention(W, c, lambda i: turn(c), c['attention_bias'], c['attention_bias']), plain(W, c, c['hidden_act'], c['mlp_bias']),
                   layernorm(W, c, 'layer_norm_eps'))


C = dict(LLAMA, hidden_act='relu2', layer_norm_eps=1e-5, attention_bias=True, mlp_bias=True, num_key_value_heads=None, head_dim=None)
C.pop('rms_norm_eps')
case('jais2', 'Jais2ForCausalLM', C, GQA, jais2)

# Layers of different widths
NAS = [{'attention': {'n_heads_in_group': 2, 'no_op': False, 'replace_with_linear': False, 'sparsify': None},
        'ffn': {'ffn_mult': 2.625, 'no_op': False, 'replace_with_linear': False, 'sparsify': None}},
       {'attention': {'n_heads_in_group': None, 'no_op': True, 'replace_with_linear': False, 'sparsify': None},
        'ffn': {'ffn_mult': 5.25, 'no_op': False, 'replace_with_linear': False, 'sparsify': None}},
       {'attention': {'n_heads_in_group': 4, 'no_op': False, 'replace_with_linear': False, 'sparsify': None},
        'ffn': {'ffn_mult': None, 'no_op': True, 'replace_with_linear': False, 'sparsify': None}}]


def nas(W, c):
    norm = rmsnorm(W, c)
    h = W.embed('model.embed_tokens', TOKENS, c['hidden_size'])
    for i, s in enumerate(c['block_configs']):
        b = f'model.layers.{i}.'
        if not s['attention']['no_op']:
            one = dict(c, num_key_value_heads=c['num_attention_heads'] // s['attention']['n_heads_in_group'])
            h = h + attention(W, one, lambda i: turn(c))(norm(h, b + 'input_layernorm'), b, i)
        if not s['ffn']['no_op']:
            n = (int(2 * s['ffn']['ffn_mult'] * c['hidden_size'] / 3) + 255) // 256 * 256
            h = h + gated(W, dict(c, intermediate_size=n))(norm(h, b + 'post_attention_layernorm'), b, i)
    return W.lin(norm(h, 'model.norm'), 'lm_head', VOCAB)


C = dict(LLAMA, mlp_bias=False, num_key_value_heads=None, intermediate_size=None, pretraining_tp=1)
case('nemotron-nas', 'DeciLMForCausalLM', C, dict({k: v for k, v in SIZES.items() if k != 'intermediate_size'}, num_hidden_layers=3, rms_norm_eps=1e-5,
                                                  block_configs=NAS), nas)
case('deci', 'DeciLMForCausalLM', dict(LLAMA, num_key_value_heads=None), dict(GQA, num_key_value_heads_per_layer=[4, 1]), lambda W, c: decoder(
    W, c, lambda x, b, i: attention(W, dict(c, num_key_value_heads=[4, 1][i]), lambda i: turn(c))(x, b, i), gated(W, c), rmsnorm(W, c)))


if __name__ == '__main__':
    sys.exit(CASES.run(sys.argv))
