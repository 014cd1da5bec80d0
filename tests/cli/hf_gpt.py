# SPDX-License-Identifier: GPL-3.0-or-later
# The same as hf_dense.py for families that name their parts in ways of their own: what came
# before Llama, and models that bring their own code.
# Sources: as in hf_dense.py.  Usage: hf_gpt.py NMBENCH FOLDER [NAME..]
import math
import sys

import numpy as np

from tiny_hf import (ACT, TOKENS, VOCAB, Cases, alibi, attend, causal, frequencies, heads, rotate)

H, T = 32, len(TOKENS)
CASES = Cases()
case = CASES.add
EMBD = dict(vocab_size=VOCAB, n_embd=H, n_layer=2, n_head=4, n_positions=32)
GPT = dict(n_positions=1024, n_inner=None, layer_norm_epsilon=1e-5, activation_function='gelu_new', resid_pdrop=0.1, embd_pdrop=0.1,
           attn_pdrop=0.1, scale_attn_weights=True, summary_type='cls_index', summary_use_proj=True, summary_activation=None,
           summary_proj_to_labels=True, summary_first_dropout=0.1)


# ------------------------------------------------------------------- parts
def inner(c, n=H):
    return c.get('n_inner') or 4 * n


def thirds(y, n, kv=None):
    """Queries, keys, values one after the other."""
    kv = kv or n
    d = y.shape[-1] // (n + 2 * kv)
    return (heads(p, d) for p in np.split(y, [n * d, (n + kv) * d], -1))


def by_head(y, n):
    """The three of each head together."""
    return y.reshape(T, n, 3, -1).transpose(2, 0, 1, 3)


def table(W, name, rows, width=H, first=0):
    return W(name + '.weight', rows, width, size=0.1)[first:first + T]


def layers(W, h, stem, n, mix, feed, norm, names=('ln_1', 'ln_2'), place='pre', last='ln_f'):
    for i in range(n):
        b = f'{stem}{i}.'
        if place == 'pre':
            h = h + mix(norm(h, b + names[0]), b, i)
            h = h + feed(norm(h, b + names[1]), b, i)
        elif place == 'parallel':
            x = norm(h, b + names[0])
            h = h + mix(x, b, i) + feed(norm(h, b + names[1]) if len(names) > 1 else x, b, i)
        elif place == 'after':
            h = norm(h + mix(h, b, i), b + names[0])
            h = norm(h + feed(h, b, i), b + names[1])
    return norm(h, last) if last else h


def plain(W, act, n, names, bias=True):
    return lambda x, b, i: W.lin(ACT[act](W.lin(x, b + names[0], n, bias)), b + names[1], x.shape[-1], bias)


def tied(W, h, name, rows=VOCAB):
    return h @ W(name + '.weight', rows, h.shape[-1], size=0.1).T


# ------------------------------------------------------------------- GPT-2
def gpt2(W, c, stem='transformer.', scale=lambda i: None, norm=None):
    n, size = c['n_head'], c['n_embd']

    def mix(x, b, i):
        q, k, v = thirds(W.conv1d(x, b + 'attn.c_attn', 3 * size), n)
        return W.conv1d(attend(q, k, v, scale(i)), b + 'attn.c_proj', size)

    def feed(x, b, i):
        return W.conv1d(ACT[c['activation_function']](W.conv1d(x, b + 'mlp.c_fc', inner(c))), b + 'mlp.c_proj', size)
    h = W.embed(stem + 'wte', TOKENS, size) + table(W, stem + 'wpe', c['n_positions'])
    h = layers(W, h, stem + 'h.', c['n_layer'], mix, feed, lambda x, name: W.layer(x, name, c['layer_norm_epsilon']),
               last=stem + 'ln_f')
    return tied(W, h, stem + 'wte')


def buffers(stem):
    def add(W):
        for i in range(2):
            W.raw(f'{stem}h.{i}.attn.bias', 'F32', np.tril(np.ones((1, 1, 32, 32), '<f4')))
            W.raw(f'{stem}h.{i}.attn.masked_bias', 'F32', np.array(-1e4, '<f4'))
    return add


def inverse(c):
    return lambda i: (H // c['n_head'])**-0.5 / (i + 1)


C = dict(GPT, tie_word_embeddings=True, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False)
case('gpt2', 'GPT2LMHeadModel', C, EMBD, gpt2, extra=buffers('transformer.'), shards=2)
case('gpt2', 'GPT2LMHeadModel', C, EMBD, lambda W, c: gpt2(W, c, ''), '-bare', extra=buffers(''))
case('gpt2', 'GPT2LMHeadModel', C, dict(EMBD, n_inner=48, activation_function='relu', scale_attn_by_inverse_layer_idx=True,
                                        reorder_and_upcast_attn=True), lambda W, c: gpt2(W, c, scale=inverse(c)), '-inverse')
case('gpt2', 'GPT2LMHeadModel', C, dict({k: v for k, v in EMBD.items() if k != 'n_positions'}, scale_attn_weights=False), lambda W, c: gpt2(W, c, scale=lambda i: 1.0), '-unscaled')


def openai(W, c):
    n = c['n_head']

    def mix(x, b, i):
        q, k, v = thirds(W.conv1d(x, b + 'attn.c_attn', 3 * H), n)
        return W.conv1d(attend(q, k, v), b + 'attn.c_proj', H)

    def feed(x, b, i):
        act = {'gelu': 'gelu_new'}.get(c['afn'], c['afn'])
        return W.conv1d(ACT[act](W.conv1d(x, b + 'mlp.c_fc', 4 * H)), b + 'mlp.c_proj', H)
    h = W.embed('transformer.tokens_embed', TOKENS, H) + table(W, 'transformer.positions_embed', c['n_positions'])
    h = layers(W, h, 'transformer.h.', 2, mix, feed, lambda x, name: W.layer(x, name, c['layer_norm_epsilon']), place='after', last=None)
    return tied(W, h, 'transformer.tokens_embed')


C = dict(n_positions=512, afn='gelu', layer_norm_epsilon=1e-5, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, tie_word_embeddings=True)
case('openai-gpt', 'OpenAIGPTLMHeadModel', C, EMBD, openai)


def bigcode(W, c):
    n, size = c['n_head'], c['n_embd']
    d = size // n

    def mix(x, b, i):
        if c['multi_query']:
            q, k, v = thirds(W.lin(x, b + 'attn.c_attn', size + 2 * d, True), n, 1)
        else:
            q, k, v = by_head(W.lin(x, b + 'attn.c_attn', 3 * size, True), n)
        return W.lin(attend(q, k, v), b + 'attn.c_proj', size, True)
    h = W.embed('transformer.wte', TOKENS, size) + table(W, 'transformer.wpe', c['n_positions'])
    h = layers(W, h, 'transformer.h.', 2, mix, plain(W, c['activation_function'], inner(c), ('mlp.c_fc', 'mlp.c_proj')),
               lambda x, name: W.layer(x, name, c['layer_norm_epsilon']), last='transformer.ln_f')
    return tied(W, h, 'transformer.wte')


C = dict(GPT, activation_function='gelu_pytorch_tanh', attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True,
         multi_query=True, tie_word_embeddings=True)
case('gpt_bigcode', 'GPTBigCodeForCausalLM', C, EMBD, bigcode)
case('gpt_bigcode', 'GPTBigCodeForCausalLM', C, dict(EMBD, multi_query=False, n_inner=H), bigcode, '-heads')


def gpt_neo(W, c):
    n = c['num_heads']
    types = [t for run, times in c['attention_types'] for _ in range(times) for t in run]

    def mix(x, b, i):
        b += 'attn.attention.'
        q, k, v = (heads(W.lin(x, f'{b}{s}_proj', H), H // n) for s in 'qkv')
        return W.lin(attend(q, k, v, 1.0, causal(T, c['window_size'] if types[i] == 'local' else 0)), b + 'out_proj', H, True)
    h = W.embed('transformer.wte', TOKENS, H) + table(W, 'transformer.wpe', c['max_position_embeddings'])
    h = layers(W, h, 'transformer.h.', c['num_layers'], mix,
               plain(W, c['activation_function'], c['intermediate_size'] or 4 * H, ('mlp.c_fc', 'mlp.c_proj')),
               lambda x, name: W.layer(x, name, c['layer_norm_epsilon']), last='transformer.ln_f')
    return tied(W, h, 'transformer.wte')


C = dict(max_position_embeddings=2048, intermediate_size=None, window_size=256, activation_function='gelu_new', resid_dropout=0.0,
         embed_dropout=0.0, classifier_dropout=0.1, layer_norm_epsilon=1e-5, tie_word_embeddings=True)
NEO = dict(max_position_embeddings=32, vocab_size=VOCAB, hidden_size=H, num_layers=2, num_heads=4, attention_types=[[['global', 'local'], 1]])
case('gpt_neo', 'GPTNeoForCausalLM', C, dict(NEO, window_size=4, attention_layers=['global', 'local']), gpt_neo, extra=lambda W: [
    W.raw(f'transformer.h.{i}.attn.attention.{n}', 'F32', np.array(-1e9, '<f4')) for i in range(2) for n in ('bias', 'masked_bias')])
case('gpt_neo', 'GPTNeoForCausalLM', C, dict(NEO, intermediate_size=48, attention_types=[[['local'], 2], [['global'], 1]], num_layers=3,
                                             window_size=3), gpt_neo, '-runs')


def gptj(W, c, fused=False):
    n, d, size = c['n_head'], c['n_embd'] // c['n_head'], c['n_embd']
    f, _ = frequencies(c['rotary_dim'], 1e4)

    def mix(x, b, i):
        b += 'attn.'
        if fused:  # written for four accelerators: of each quarter the queries, values, keys
            q, v, k = W.lin(x, b + 'qkv_proj', 3 * size).reshape(T, 4, 3, -1).transpose(2, 0, 1, 3)
            q, k, v = (y.reshape(T, n, d) for y in (q, k, v))
        else:
            q, k, v = (heads(W.lin(x, f'{b}{s}_proj', size), d) for s in 'qkv')
        return W.lin(attend(rotate(q, f, adjacent=True), rotate(k, f, adjacent=True), v), b + 'out_proj', size)
    h = W.embed('transformer.wte', TOKENS, size)
    h = layers(W, h, 'transformer.h.', 2, mix, plain(W, c['activation_function'], inner(c, size), ('mlp.fc_in', 'mlp.fc_out')),
               lambda x, name: W.layer(x, name, c['layer_norm_epsilon']), ('ln_1',), 'parallel', 'transformer.ln_f')
    return W.lin(h, 'lm_head', VOCAB, True)


C = {k: v for k, v in GPT.items() if k != 'scale_attn_weights'}
C = dict(C, n_positions=2048, rotary_dim=64, tie_word_embeddings=False, tokenizer_class='GPT2Tokenizer')
case('gptj', 'GPTJForCausalLM', C, dict(EMBD, rotary_dim=4), gptj, extra=buffers('transformer.'))
case('gptj', 'GPTJForCausalLM', C, dict(EMBD, n_embd=128, n_head=2), gptj, '-dim')
case('codegen', 'CodeGenForCausalLM', dict(C, n_ctx=2048), dict(EMBD, n_head=8, rotary_dim=4), lambda W, c: gptj(W, c, True),
     extra=lambda W: [W.raw(f'transformer.h.{i}.attn.causal_mask', 'U8', np.ones((1, 1, 32, 32), 'u1')) for i in range(2)])


# ---------------------------------------------------------------- GPT-NeoX
def neox(W, c, stem='gpt_neox.', mixbias=None, bias=True, size=None):
    n, d, width = c['num_attention_heads'], H // c['num_attention_heads'], c.get('intermediate_size') or 4 * H
    f, factor = frequencies(int(d * c['rotary_pct']), c['rotary_emb_base'], c.get('rope_scaling'), c['max_position_embeddings'])
    parallel = c.get('use_parallel_residual')

    def mix(x, b, i):
        q, k, v = by_head(W.lin(x, b + 'attention.query_key_value', 3 * H, c.get('attention_bias', bias)), n)
        y = W.lin(attend(rotate(q, f), rotate(k, f), v), b + 'attention.dense', H, c.get('attention_bias', bias))
        return y + W(b + 'attention.dense_bias', H, size=0.2) if mixbias and i == c['num_hidden_layers'] - 1 else y
    h = layers(W, W.embed(stem + 'embed_in', TOKENS, H), stem + 'layers.', c['num_hidden_layers'], mix,
               plain(W, c['hidden_act'], width, ('mlp.dense_h_to_4h', 'mlp.dense_4h_to_h'), bias),
               lambda x, name: W.layer(x, name, c['layer_norm_eps']), ('input_layernorm', 'post_attention_layernorm'),
               'parallel' if parallel else 'pre', stem + 'final_layer_norm')
    return tied(W, h, stem + 'embed_in') if c['tie_word_embeddings'] else W.lin(h, 'embed_out', VOCAB)


BERT = dict(vocab_size=VOCAB, hidden_size=H, num_hidden_layers=2, num_attention_heads=4)
C = dict(hidden_act='gelu', rotary_pct=0.25, rotary_emb_base=10000, classifier_dropout=0.1, hidden_dropout=0.0, max_position_embeddings=2048,
         layer_norm_eps=1e-5, tie_word_embeddings=False, use_parallel_residual=True, rope_scaling=None, attention_bias=True)


def neox_buffers(W):
    for i in range(2):
        W.raw(f'gpt_neox.layers.{i}.attention.bias', 'BOOL', np.ones((1, 1, 8, 8), 'u1'))
        W.raw(f'gpt_neox.layers.{i}.attention.masked_bias', 'F32', np.array(-1e9, '<f4'))
        W.raw(f'gpt_neox.layers.{i}.attention.rotary_emb.inv_freq', 'F16', np.ones(4, '<f2'))


case('gpt_neox', 'GPTNeoXForCausalLM', C, dict(BERT, intermediate_size=48, rotary_pct=0.5), neox, extra=neox_buffers)
case('gpt_neox', 'GPTNeoXForCausalLM', C, dict(BERT, intermediate_size=48, use_parallel_residual=False, num_attention_heads=2,
                                               rotary_emb_base=500), neox, '-serial')
case('gpt_neox', 'GPTNeoXForCausalLM', C, dict(BERT, intermediate_size=128, rotary_pct=1.0, attention_bias=False, tie_word_embeddings=True,
                                               rope_scaling={'type': 'linear', 'factor': 2.0}), neox, '-tied')


def rotations(c):
    """As version 5 of the library saves it."""
    c = {k: v for k, v in c.items() if k not in ('rope_scaling', 'torch_dtype')}
    return {**c, 'dtype': 'float32', 'rope_parameters': {'rope_type': 'default', 'rope_theta': c.pop('rotary_emb_base', 10000),
                                                         'partial_rotary_factor': c.pop('rotary_pct', 0.25)}}


case('gpt_neox', 'GPTNeoXForCausalLM', C, dict(BERT, intermediate_size=48, rotary_pct=0.5), neox, '-v5', wrap=rotations)
C = dict(hidden_act='gelu', rotary_pct=1.0, rotary_emb_base=10000, max_position_embeddings=2048, layer_norm_eps=1e-5, intermediate_multiple_size=4,
         attention_dropout=0.1, hidden_dropout=0.0, tie_word_embeddings=True)
case('gpt_neox_japanese', 'GPTNeoXJapaneseForCausalLM', C, BERT, lambda W, c: neox(W, c, 'gpt_neox_japanese.', True, False))


# --------------------------------------------------------- OPT and its kin
def opt(W, c):
    n, size, narrow = c['num_attention_heads'], c['hidden_size'], c['word_embed_proj_dim'] or c['hidden_size']
    bias = c['enable_bias']

    def mix(x, b, i):
        b += 'self_attn.'
        q, k, v = (heads(W.lin(x, f'{b}{s}_proj', size, bias), size // n) for s in 'qkv')
        return W.lin(attend(q, k, v), b + 'out_proj', size, bias)
    stem = 'model.decoder.'
    h = W.embed(stem + 'embed_tokens', TOKENS, narrow)
    if narrow != size:
        h = W.lin(h, stem + 'project_in', size)
    h = h + table(W, stem + 'embed_positions', c['max_position_embeddings'] + 2, size, 2)
    before = c['do_layer_norm_before']
    final = stem + 'final_layer_norm' if before and not c['_remove_final_layer_norm'] else None
    h = layers(W, h, stem + 'layers.', 2, mix, plain(W, c['activation_function'], c['ffn_dim'], ('fc1', 'fc2'), bias),
               lambda x, name: W.layer(x, name), ('self_attn_layer_norm', 'final_layer_norm'), 'pre' if before else 'after', final)
    if narrow != size:
        h = W.lin(h, stem + 'project_out', narrow)
    return tied(W, h, stem + 'embed_tokens')


C = dict(max_position_embeddings=2048, do_layer_norm_before=True, _remove_final_layer_norm=False, word_embed_proj_dim=None, dropout=0.1,
         activation_function='relu', layerdrop=0.0, init_std=0.02, enable_bias=True, layer_norm_elementwise_affine=True, tie_word_embeddings=True)
OPT = dict(BERT, ffn_dim=48, max_position_embeddings=32)
case('opt', 'OPTForCausalLM', C, dict(OPT, word_embed_proj_dim=H), opt)
case('opt', 'OPTForCausalLM', C, dict(OPT, word_embed_proj_dim=24, do_layer_norm_before=False), opt, '-350m')
case('opt', 'OPTForCausalLM', C, dict(OPT, _remove_final_layer_norm=True, activation_function='gelu', enable_bias=False), opt, '-bare')


def fairseq(W, c, stem, embed, last, out, positions, n, act, eps=1e-5):
    size, width = c.get('hidden_size') or c['d_model'], c.get('intermediate_size') or c['ffn_dim']

    def mix(x, b, i):
        b += 'self_attn.'
        q, k, v = (heads(W.lin(x, f'{b}{s}_proj', size, True), size // n) for s in 'qkv')
        return W.lin(attend(q, k, v), b + 'out_proj', size, True)
    h = W.embed(stem + embed, TOKENS, size) * math.sqrt(size if c['scale_embedding'] else 1) + positions
    h = layers(W, h, stem + 'layers.', 2, mix, plain(W, act, width, ('fc1', 'fc2')), lambda x, name: W.layer(x, name, eps),
               ('self_attn_layer_norm', 'final_layer_norm'), last=stem + last)
    return tied(W, h, stem + embed) if c['tie_word_embeddings'] else W.lin(h, out, VOCAB)


def biogpt(W, c):
    positions = table(W, 'biogpt.embed_positions', c['max_position_embeddings'] + 2, H, 2)
    return fairseq(W, c, 'biogpt.', 'embed_tokens', 'layer_norm', 'output_projection', positions, 4, c['hidden_act'])


C = dict(hidden_act='gelu', hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, max_position_embeddings=1024, layer_norm_eps=1e-12,
         scale_embedding=True, layerdrop=0.0, activation_dropout=0.0, tie_word_embeddings=True)
case('biogpt', 'BioGptForCausalLM', C, dict(BERT, intermediate_size=48, max_position_embeddings=32), biogpt)


def xglm(W, c):
    half = c['d_model'] // 2
    a = (np.arange(T) + 2)[:, None] * np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
    return fairseq(W, c, 'model.', 'embed_tokens', 'layer_norm', 'lm_head', np.concatenate([np.sin(a), np.cos(a)], 1),
                   c['attention_heads'], c['activation_function'])


C = dict(max_position_embeddings=2048, activation_function='gelu', dropout=0.1, activation_dropout=0.0, layerdrop=0.0, init_std=0.02,
         scale_embedding=True, decoder_start_token_id=2, tie_word_embeddings=True)
XGLM = dict(vocab_size=VOCAB, d_model=H, num_layers=2, attention_heads=4, ffn_dim=48)
case('xglm', 'XGLMForCausalLM', C, XGLM, xglm)
case('xglm', 'XGLMForCausalLM', C, dict(XGLM, scale_embedding=False, activation_function='relu'), xglm, '-unscaled')


# ------------------------------------------------- BLOOM, Falcon, MPT: ALiBi
def bloom(W, c):
    n = c['n_head']

    def mix(x, b, i):
        q, k, v = by_head(W.lin(x, b + 'self_attention.query_key_value', 3 * H, True), n)
        return W.lin(attend(q, k, v, mask=causal(T) + alibi(T, n)), b + 'self_attention.dense', H, True)
    feed = plain(W, 'gelu_new', 4 * H, ('mlp.dense_h_to_4h', 'mlp.dense_4h_to_h'))

    def norm(x, name):
        return W.layer(x, name, c['layer_norm_epsilon'])
    h = norm(W.embed('transformer.word_embeddings', TOKENS, H), 'transformer.word_embeddings_layernorm')
    for i in range(c['n_layer']):
        b = f'transformer.h.{i}.'
        for part, name in ((mix, 'input_layernorm'), (feed, 'post_attention_layernorm')):
            x = norm(h, b + name)
            h = (x if c['apply_residual_connection_post_layernorm'] else h) + part(x, b, i)
    return tied(W, norm(h, 'transformer.ln_f'), 'transformer.word_embeddings')


C = dict(layer_norm_epsilon=1e-5, apply_residual_connection_post_layernorm=False, hidden_dropout=0.0, pretraining_tp=1, slow_but_exact=False,
         tie_word_embeddings=True)
BLOOM = dict(vocab_size=VOCAB, hidden_size=H, n_layer=2, n_head=4)
case('bloom', 'BloomForCausalLM', C, BLOOM, bloom)
case('bloom', 'BloomForCausalLM', C, dict(BLOOM, n_head=8, apply_residual_connection_post_layernorm=True), bloom, '-post')


def bf16(x):
    """Nearest value of a bfloat16."""
    u = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    u = (u + 0x7fff + (u >> 16 & 1)) >> 16 << 16
    return u.astype(np.uint32).view(np.float32).astype(np.float64)


def falcon(W, c):
    n, size, new = c['num_attention_heads'], c['hidden_size'], c['new_decoder_architecture']
    d, bias = size // n, c['bias']
    kv = (c['num_kv_heads'] or n) if new or not c['multi_query'] else 1
    f, _ = frequencies(d, c['rope_theta'])

    def mix(x, b, i):
        b += 'self_attention.'
        y = W.lin(x, b + 'query_key_value', (n + 2 * kv) * d, bias)
        if new:
            y = y.reshape(T, kv, n // kv + 2, d)
            q, k, v = y[:, :, :-2].reshape(T, n, d), y[:, :, -2], y[:, :, -1]
        elif kv == 1:
            q, k, v = thirds(y, n, 1)
        else:
            q, k, v = by_head(y, n)
        mask = causal(T)
        if c['alibi']:
            slope = bf16(alibi(T, n)[:, -1, -2] * -1)  # the class adds it to products that it then scales
            mask = mask + bf16(slope[:, None, None] * np.arange(T)) * d**-0.5
        else:
            q, k = rotate(q, f), rotate(k, f)
        return W.lin(attend(q, k, v, mask=mask), b + 'dense', size, bias)
    parallel = new or c['parallel_attn']
    two = new and (c['num_ln_in_parallel_attn'] or 2) == 2
    names = ('ln_attn', 'ln_mlp') if two else ('input_layernorm',) if parallel else ('input_layernorm', 'post_attention_layernorm')
    h = layers(W, W.embed('transformer.word_embeddings', TOKENS, size), 'transformer.h.', 2, mix,
               plain(W, c['activation'], c['ffn_hidden_size'] or 4 * size, ('mlp.dense_h_to_4h', 'mlp.dense_4h_to_h'), bias),
               lambda x, name: W.layer(x, name, c['layer_norm_epsilon']), names, 'parallel' if parallel else 'pre', 'transformer.ln_f')
    return tied(W, h, 'transformer.word_embeddings') if c['tie_word_embeddings'] else W.lin(h, 'lm_head', VOCAB)


C = dict(layer_norm_epsilon=1e-5, hidden_dropout=0.0, num_kv_heads=None, alibi=False, new_decoder_architecture=False, multi_query=True,
         parallel_attn=True, bias=False, max_position_embeddings=2048, rope_theta=10000.0, rope_scaling=None, ffn_hidden_size=None,
         activation='gelu', num_ln_in_parallel_attn=None, tie_word_embeddings=True)
case('falcon', 'FalconForCausalLM', C, dict(BERT, num_kv_heads=4), falcon, '-7b')
case('falcon', 'FalconForCausalLM', C, dict(BERT, num_kv_heads=2, new_decoder_architecture=True), falcon, '-40b')
case('falcon', 'FalconForCausalLM', C, dict(BERT, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, ffn_hidden_size=48,
                                            tie_word_embeddings=False, rope_theta=500042.0), falcon, '-11b')
case('falcon', 'FalconForCausalLM', C, dict(BERT, num_attention_heads=8, alibi=True, multi_query=False, parallel_attn=False, bias=True), falcon, '-rw')
case('falcon', 'FalconForCausalLM', C, dict(BERT, hidden_size=48, num_attention_heads=6, multi_query=False), falcon, '-mha')


def mpt(W, c):
    n, size, a = c['n_heads'], c['d_model'], c['attn_config']

    def mix(x, b, i):
        y = W.lin(x, b + 'attn.Wqkv', 3 * size)
        if a['clip_qkv']:
            y = np.clip(y, -a['clip_qkv'], a['clip_qkv'])
        return W.lin(attend(*thirds(y, n), a['softmax_scale'], causal(T) + alibi(T, n)), b + 'attn.out_proj', size)
    h = layers(W, W.embed('transformer.wte', TOKENS, size), 'transformer.blocks.', 2, mix,
               plain(W, 'gelu', c['expansion_ratio'] * size, ('ffn.up_proj', 'ffn.down_proj'), False),
               lambda x, name: W.layer(x, name, c['layer_norm_epsilon'], False), ('norm_1', 'norm_2'), last='transformer.norm_f')
    return tied(W, h, 'transformer.wte')


MPTA = dict(attn_type='multihead_attention', attn_pdrop=0.0, attn_impl='torch', clip_qkv=None, softmax_scale=None, prefix_lm=False, qk_ln=False,
            attn_uses_sequence_id=False, alibi=True, alibi_bias_max=8, model_type='')
C = dict(expansion_ratio=4, max_seq_len=2048, resid_pdrop=0.0, layer_norm_epsilon=1e-5, emb_pdrop=0.0, learned_pos_emb=True, attn_config=MPTA,
         init_device='cpu', logit_scale=None, no_bias=True, verbose=0, embedding_fraction=1.0, norm_type='low_precision_layernorm',
         tie_word_embeddings=True)
MPT = dict(vocab_size=VOCAB, d_model=H, n_heads=4, n_layers=2)
case('mpt', 'MptForCausalLM', C, MPT, mpt)
case('mpt', 'MPTForCausalLM', C, dict(MPT, d_model=48, n_heads=6, expansion_ratio=2, attn_config=dict(MPTA, clip_qkv=0.7, softmax_scale=0.2)), mpt,
     '-clip')


# ---------------------------------------------------- code that models bring
def chatglm(W, c):
    n, d, kv = c['num_attention_heads'], c['kv_channels'], c['multi_query_group_num']
    size, eps, bias = c['hidden_size'], c['layernorm_epsilon'], c['add_qkv_bias']
    f, _ = frequencies(d // 2, 1e4 * c.get('rope_ratio', 1))

    def norm(x, name):
        return W.rms(x, name, eps)

    def mix(x, b, i):
        y = W.lin(x, b + 'self_attention.query_key_value', (n + 2 * kv) * d, bias)
        q, k, v = thirds(y, n, kv)
        return W.lin(attend(rotate(q, f, adjacent=True), rotate(k, f, adjacent=True), v), b + 'self_attention.dense', size)

    def feed(x, b, i):
        g, u = np.split(W.lin(x, b + 'mlp.dense_h_to_4h', 2 * c['ffn_hidden_size']), 2, -1)
        return W.lin(ACT['silu'](g) * u, b + 'mlp.dense_4h_to_h', size)
    h = layers(W, W.embed('transformer.embedding.word_embeddings', TOKENS, size), 'transformer.encoder.layers.', c['num_layers'], mix, feed, norm,
               ('input_layernorm', 'post_attention_layernorm'), last='transformer.encoder.final_layernorm')
    return W.lin(h, 'transformer.output_layer', VOCAB)


C = dict(layernorm_epsilon=1e-5, rmsnorm=True, apply_residual_connection_post_layernorm=False, post_layer_norm=True, add_bias_linear=False,
         bias_dropout_fusion=True, apply_query_key_layer_scaling=True, attention_softmax_in_fp32=True, fp32_residual_connection=False,
         quantization_bit=0, pre_seq_len=None, prefix_projection=False, seq_length=2048, hidden_dropout=0.0, classifier_dropout=None,
         interleaved_qkv=False, original_rope=True, tie_word_embeddings=False)
GLM = dict(padded_vocab_size=VOCAB, hidden_size=H, num_layers=2, num_attention_heads=4, kv_channels=8, ffn_hidden_size=48, add_qkv_bias=True,
           multi_query_attention=True, multi_query_group_num=2)
case('chatglm', 'ChatGLMModel', C, GLM, chatglm, extra=lambda W: W.raw('transformer.rotary_pos_emb.inv_freq', 'F16', np.ones(2, '<f2')))
case('chatglm', 'ChatGLMForConditionalGeneration', C, dict(GLM, rope_ratio=500, multi_query_group_num=1), chatglm, '-ratio')


def qwen(W, c):
    n, size = c['num_attention_heads'], c['hidden_size']
    d = c['kv_channels']
    f, _ = frequencies(int(d * c['rotary_pct']), c['rotary_emb_base'])

    def mix(x, b, i):
        q, k, v = thirds(W.lin(x, b + 'attn.c_attn', 3 * n * d, True), n)
        return W.lin(attend(rotate(q, f), rotate(k, f), v), b + 'attn.c_proj', size)

    def feed(x, b, i):
        m = c['intermediate_size'] // 2
        return W.lin(W.lin(x, b + 'mlp.w1', m) * ACT['silu'](W.lin(x, b + 'mlp.w2', m)), b + 'mlp.c_proj', size)
    h = layers(W, W.embed('transformer.wte', TOKENS, size), 'transformer.h.', 2, mix, feed, lambda x, name: W.rms(x, name, c['layer_norm_epsilon']),
               last='transformer.ln_f')
    return W.lin(h, 'lm_head', VOCAB)


C = dict(emb_dropout_prob=0.0, attn_dropout_prob=0.0, layer_norm_epsilon=1e-6, max_position_embeddings=8192, scale_attn_weights=True, bf16=False,
         fp16=False, fp32=False, kv_channels=128, rotary_pct=1.0, rotary_emb_base=10000, use_dynamic_ntk=True, use_logn_attn=True,
         use_flash_attn='auto', no_bias=True, tie_word_embeddings=False, use_cache_quantization=False, use_cache_kernel=False,
         softmax_in_fp32=False, seq_length=8192, onnx_safe=None)
case('qwen', 'QWenLMHeadModel', C, dict(BERT, intermediate_size=96, kv_channels=8), qwen)


def exaone(W, c):
    n, kv, size = c['num_attention_heads'], c['num_key_value_heads'], c['hidden_size']
    d = size // n
    f, factor = frequencies(d, c['rope_theta'], c['rope_scaling'], c['max_position_embeddings'])

    def mix(x, b, i):
        b += 'attn.attention.'
        q, k, v = (heads(W.lin(x, f'{b}{s}_proj', m * d), d) for s, m in (('q', n), ('k', kv), ('v', kv)))
        return W.lin(attend(rotate(q, f), rotate(k, f), v), b + 'out_proj', size)

    def feed(x, b, i):
        b, m = b + 'mlp.', c['intermediate_size']
        return W.lin(ACT[c['activation_function']](W.lin(x, b + 'c_fc_0', m)) * W.lin(x, b + 'c_fc_1', m), b + 'c_proj', size)
    h = layers(W, W.embed('transformer.wte', TOKENS, size), 'transformer.h.', c['num_layers'], mix, feed,
               lambda x, name: W.rms(x, name, c['layer_norm_epsilon']), last='transformer.ln_f')
    return W.lin(h, 'lm_head', VOCAB)


C = dict(max_position_embeddings=2048, activation_function='silu', rope_theta=10000.0, rope_scaling=None, embed_dropout=0.0, layer_norm_epsilon=1e-5,
         tie_word_embeddings=False)
E3 = dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
case('exaone', 'ExaoneForCausalLM', C, dict(vocab_size=VOCAB, hidden_size=H, num_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                            intermediate_size=48, rope_scaling=E3), exaone)


def openelm(W, c):
    size, d = c['model_dim'], c['head_dim']
    f, _ = frequencies(d, c['rope_freq_constant'])

    def mix(x, b, i):
        b += 'attn.'
        n, kv = c['num_query_heads'][i], c['num_kv_heads'][i]
        q, k, v = thirds(W.lin(x, b + 'qkv_proj', (n + 2 * kv) * d), n, kv)
        if c['normalize_qk_projections']:
            q, k = W.rms(q, b + 'q_norm', 1e-6), W.rms(k, b + 'k_norm', 1e-6)
        return W.lin(attend(rotate(q, f), rotate(k, f), v), b + 'out_proj', size)

    def feed(x, b, i):
        want, by = c['ffn_multipliers'][i] * size, c['ffn_dim_divisor']
        m = max(by, int(want + by / 2) // by * by)
        m += by if m < 0.9 * want else 0
        y = W.lin(x, b + 'ffn.proj_1', 2 * m if c['ffn_with_glu'] else m)
        if c['ffn_with_glu']:
            g, u = np.split(y, 2, -1)
            y = ACT['silu'](g) * u
        else:
            y = ACT['silu'](y)
        return W.lin(y, b + 'ffn.proj_2', size)
    h = layers(W, W.embed('transformer.token_embeddings', TOKENS, size), 'transformer.layers.', 2, mix, feed, lambda x, name: W.rms(x, name, 1e-6),
               ('attn_norm', 'ffn_norm'), last='transformer.norm')
    return tied(W, h, 'transformer.token_embeddings') if c['share_input_output_layers'] else W.lin(h, 'lm_head', VOCAB)


C = dict(max_context_length=2048, num_gqa_groups=1, ffn_with_glu=True, ffn_dim_divisor=256, activation_fn_name='swish',
         normalization_layer_name='rms_norm', normalize_qk_projections=False, share_input_output_layers=False, rope_freq_constant=10000,
         rope_max_length=4096, qkv_multipliers=[0.5, 1.0])
ELM = dict(vocab_size=VOCAB, model_dim=H, num_transformer_layers=2, head_dim=8, num_query_heads=[4, 2], num_kv_heads=[2, 1], ffn_multipliers=[1.0, 2.0],
           ffn_dim_divisor=16)
case('openelm', 'OpenELMForCausalLM', C, dict(ELM, normalize_qk_projections=True, share_input_output_layers=True), openelm)
case('openelm', 'OpenELMForCausalLM', C, dict(ELM, ffn_with_glu=False), openelm, '-class')


def codeshell(W, c):
    n, kv, size = c['n_head'], c['num_query_groups'], c['n_embd']
    d = size // n
    f, _ = frequencies(d, 1e4)

    def mix(x, b, i):
        q, k, v = thirds(W.lin(x, b + 'attn.c_attn', (n + 2 * kv) * d, True), n, kv)
        return W.lin(attend(rotate(q, f), rotate(k, f), v), b + 'attn.c_proj', size, True)
    h = layers(W, W.embed('transformer.wte', TOKENS, size), 'transformer.h.', 2, mix,
               plain(W, c['activation_function'], inner(c), ('mlp.c_fc', 'mlp.c_proj')), lambda x, name: W.layer(x, name, c['layer_norm_epsilon']),
               last='transformer.ln_f')
    return W.lin(h, 'lm_head', VOCAB)


C = dict(GPT, activation_function='gelu_pytorch_tanh', attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True,
         group_query_attention=True, position_embedding_type='rope', rope_scaling=None, n_positions=8192)
case('codeshell', 'CodeShellForCausalLM', C, dict(EMBD, num_query_groups=2, n_inner=H, tie_word_embeddings=False), codeshell)


def jais(W, c):
    n, size = c['n_head'], c['n_embd']
    scale = (size // n)**-(1.0 if c['mup_scale_qk_dot_by_d'] else 0.5)
    learned = c['position_embedding_type'] == 'learned'

    def mix(x, b, i):
        q, k, v = thirds(W.conv1d(x, b + 'attn.c_attn', 3 * size), n)
        return W.conv1d(attend(q, k, v, scale, causal(T) + (0 if learned else alibi(T, n))), b + 'attn.c_proj', size)

    def feed(x, b, i):
        y = W.conv1d(x, b + 'mlp.c_fc', inner(c))
        y = y * ACT['silu'](W.conv1d(x, b + 'mlp.c_fc2', inner(c))) if c['activation_function'] == 'swiglu' else ACT[c['activation_function']](y)
        return W.conv1d(y, b + 'mlp.c_proj', size)
    h = W.embed('transformer.wte', TOKENS, size)
    if learned:
        h = h + table(W, 'transformer.wpe', c['n_positions'])
    h = layers(W, h * c['mup_embeddings_scale'], 'transformer.h.', 2, mix, feed, lambda x, name: W.layer(x, name, c['layer_norm_epsilon']),
               last='transformer.ln_f')
    return tied(W, h, 'transformer.wte') * c['mup_output_alpha'] * c['mup_width_scale']


C = dict(GPT, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False, position_embedding_type='learned', mup_width_scale=1.0,
         mup_embeddings_scale=1.0, mup_output_alpha=1.0, mup_scale_qk_dot_by_d=False, alibi_scaling=None, tie_word_embeddings=True)
case('jais', 'JAISLMHeadModel', C, dict(EMBD, activation_function='swiglu', position_embedding_type='alibi', n_inner=48, mup_width_scale=0.25,
                                        mup_embeddings_scale=9.1, mup_output_alpha=1.5, mup_scale_qk_dot_by_d=True), jais)
case('jais', 'JAISLMHeadModel', C, EMBD, jais, '-learned')

if __name__ == '__main__':
    sys.exit(CASES.run(sys.argv))
