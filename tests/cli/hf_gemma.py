# SPDX-License-Identifier: GPL-3.0-or-later
# The same as hf_dense.py for models with parts that no other family has: Gemma 3n and the
# dense Gemma 4, NanoChat.
# Sources: as in hf_dense.py.  Usage: hf_gemma.py NMBENCH FOLDER [NAME..]
import math
import statistics
import sys

import numpy as np

from hf_dense import GQA, LLAMA, every, plain
from tiny_hf import ACT, TOKENS, Cases, attend, causal, frequencies, heads, rms, rotate

CASES = Cases()
H, T = 32, len(TOKENS)
gelu = ACT['gelu_pytorch_tanh']


class Gemma:
    """Layers of one stream; what a layer's embedding adds; shared caches."""

    def __init__(self, W, c, stem='model.'):
        self.W, self.c, self.stem, self.kept = W, c, stem, {}
        self.n, self.types, self.ple = c['num_hidden_layers'], c['layer_types'], c['hidden_size_per_layer_input']
        self.first_shared = self.n - c['num_kv_shared_layers']

    def norm(self, x, name):
        return self.W.rms(x, name, self.c['rms_norm_eps'])

    def width(self, i):
        full = self.types[i] == 'full_attention'
        return full and self.c.get('global_head_dim') or self.c['head_dim']

    def turn(self, i):
        d, local = self.width(i), self.types[i] == 'sliding_attention'
        p = self.c.get('rope_parameters', {}).get(self.types[i])
        if p is None:
            f, _ = frequencies(d, self.c['rope_local_base_freq' if local else 'rope_theta'])
        else:  # proportional: only the first angles of the whole head turn
            f, _ = frequencies(d, p['rope_theta'])
            f = np.where(np.arange(d // 2) < int(p.get('partial_rotary_factor', 1.0) * d // 2), f, 0)
        return lambda x: rotate(x, f)

    def attention(self, x, b, i):
        c, W, d, rope = self.c, self.W, self.width(i), self.turn(i)
        full = self.types[i] == 'full_attention'
        same = full and c.get('attention_k_eq_v', False)
        kv = c['num_global_key_value_heads'] if same and c.get('num_global_key_value_heads') else c['num_key_value_heads']
        b += 'self_attn.'
        q = rope(self.norm(heads(W.lin(x, b + 'q_proj', c['num_attention_heads'] * d), d), b + 'q_norm'))
        k = heads(W.lin(x, b + 'k_proj', kv * d), d)
        v = k if same else heads(W.lin(x, b + 'v_proj', kv * d), d)
        k, v = rope(self.norm(k, b + 'k_norm')), rms(v, c['rms_norm_eps'])
        if i >= self.first_shared:
            k, v = self.kept[self.types[i]]
        else:
            self.kept[self.types[i]] = k, v
        y = attend(q, k, v, 1.0, causal(T, 0 if full else c['sliding_window']))
        return W.lin(y, b + 'o_proj', c['hidden_size'])

    def network(self, x, b, i):
        W, m = self.W, self.c['intermediate_size']
        m = m[i] if isinstance(m, list) else m
        m *= 2 if self.c.get('use_double_wide_mlp') and i >= self.first_shared else 1
        g, u = W.lin(x, b + 'mlp.gate_proj', m), W.lin(x, b + 'mlp.up_proj', m)
        share = (self.c.get('activation_sparsity_pattern') or [0] * self.n)[i]
        if share:
            cut = g.mean(-1, keepdims=True) + g.std(-1, keepdims=True) * statistics.NormalDist().inv_cdf(share)
            g = np.maximum(g - cut, 0)
        return W.lin(gelu(g) * u, b + 'mlp.down_proj', self.c['hidden_size'])

    def embeddings(self, e):
        """[T, layers, ple]"""
        W, n = self.W, self.n * self.ple
        t = W.embed(self.stem + 'embed_tokens_per_layer', TOKENS, n, self.c['vocab_size_per_layer_input']) * math.sqrt(self.ple)
        p = (W.lin(e, self.stem + 'per_layer_model_projection', n) / math.sqrt(self.c['hidden_size'])).reshape(T, self.n, -1)
        return (self.norm(p, self.stem + 'per_layer_projection_norm') + t.reshape(T, self.n, -1)) / math.sqrt(2)

    def added(self, x, own, b):
        y = gelu(self.W.lin(x, b + 'per_layer_input_gate', self.ple)) * own
        return self.norm(self.W.lin(y, b + 'per_layer_projection', self.c['hidden_size']), b + 'post_per_layer_input_norm')

    def parts(self, h, b, i, side=None):
        x = self.norm(h, b + 'input_layernorm')
        beside = side(x) if side else None
        h = h + self.norm(self.attention(x, b, i), b + 'post_attention_layernorm')
        if side:
            h = (h + beside) / math.sqrt(2)
        y = self.network(self.norm(h, b + 'pre_feedforward_layernorm'), b, i)
        return h + self.norm(y, b + 'post_feedforward_layernorm')

    def embed(self):
        e = self.W.embed(self.stem + 'embed_tokens', TOKENS, self.c['hidden_size'], self.c['vocab_size'])
        return e * math.sqrt(self.c['hidden_size'])

    def logits(self, h):
        y = self.norm(h, self.stem + 'norm') @ self.W(self.stem + 'embed_tokens.weight', self.c['vocab_size'], self.c['hidden_size'], size=0.1).T
        cap = self.c['final_logit_softcapping']
        return cap * np.tanh(y / cap) if cap else y


def gemma4(W, c):
    g = Gemma(W, c)
    h = g.embed()
    own = g.embeddings(h) if g.ple else None
    for i in range(g.n):
        b = f'model.layers.{i}.'
        h = g.parts(h, b, i)
        if g.ple:
            h = h + g.added(h, own[:, i], b)
        h = h * W(b + 'layer_scalar', 1, size=0.2, around=1)
    return g.logits(h)


def as_large(x, size):
    return x * size / np.sqrt(np.maximum((x * x).mean(-1, keepdims=True), 1e-5))


def gemma3n(W, c):
    """Streams of which a layer computes one (AltUp)."""
    g, n, a, size = Gemma(W, c), c['altup_num_inputs'], c['altup_active_idx'], c['hidden_size']
    e = g.embed()
    own = g.embeddings(e)
    size0 = np.sqrt((e * e).mean(-1, keepdims=True))
    hs = [e] + [as_large(W.lin(e, f'model.altup_projections.{i}', size), size0) for i in range(n - 1)]
    for i in range(g.n):
        b = f'model.layers.{i}.'

        def modes(x):
            return np.tanh(W.lin(g.norm(x, b + 'altup.router_norm') / size, b + 'altup.modality_router', n))

        def laurel(x):
            y = W.lin(W.lin(x, b + 'laurel.linear_left', c['laurel_rank']), b + 'laurel.linear_right', size)
            return x + g.norm(y, b + 'laurel.post_laurel_norm')
        coefs = W.lin(modes(hs[a]), b + 'altup.prediction_coefs', n * n).reshape(T, n, n)
        old = [h + sum(coefs[:, j, k, None] * hs[k] for k in range(n)) for j, h in enumerate(hs)]
        new = g.parts(old[a], b, i, laurel)
        coefs = W.lin(modes(new), b + 'altup.correction_coefs', n) + 1
        hs = [h + (new - old[a]) * coefs[:, j, None] for j, h in enumerate(old)]
        x = hs[a]
        scale = W(b + 'altup.correct_output_scale', size, size=0.3, around=1)
        add = g.added(x * scale if c['altup_correct_scale'] else x, own[:, i], b)
        hs = [hs[0]] + [h + add for h in hs[1:]]
    size0 = np.sqrt((hs[0] * hs[0]).mean(-1, keepdims=True))
    out = [hs[0]] + [as_large(W.lin(h, f'model.altup_unembed_projections.{i}', size), size0) for i, h in enumerate(hs[1:])]
    return g.logits(sum(out) / n)


C = dict(vocab_size=262400, vocab_size_per_layer_input=262144, hidden_size_per_layer_input=256, num_key_value_heads=2, head_dim=256,
         hidden_activation='gelu_pytorch_tanh', max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1e6, rope_scaling=None,
         rope_local_base_freq=1e4, attention_bias=False, sliding_window=512, final_logit_softcapping=30.0, altup_active_idx=0,
         altup_coef_clip=120.0, altup_correct_scale=True, altup_num_inputs=4, num_kv_shared_layers=15, laurel_rank=64, tie_word_embeddings=True)
N = dict(GQA, vocab_size_per_layer_input=67, hidden_size_per_layer_input=8, head_dim=16, sliding_window=4, laurel_rank=6,
         num_hidden_layers=5, layer_types=every(2, layers=5), num_kv_shared_layers=2, intermediate_size=[48] * 5,
         activation_sparsity_pattern=[0.9, 0.8, 0.0, 0.0, 0.0])
CASES.add('gemma3n_text', 'Gemma3nForCausalLM', C, N, gemma3n, v5=False)
CASES.add('gemma3n_text', 'Gemma3nForCausalLM', C, dict(N, altup_num_inputs=3, altup_active_idx=1, altup_correct_scale=False,
                                                        activation_sparsity_pattern=[0.0] * 5), gemma3n, '-active', v5=False)


def within(c):
    return {'architectures': ['Gemma3nForConditionalGeneration'], 'model_type': 'gemma3n', 'audio_config': {}, 'vision_config': {},
            'text_config': {k: v for k, v in c.items() if k != 'architectures'}}


CASES.add('gemma3n_text', None, C, N, gemma3n, '.wrapped', v5=False, wrap=within, rename=lambda n: n.replace('model.', 'model.language_model.', 1),
          extra=lambda W: W.raw('model.embed_audio.embedding.weight', 'F32', np.ones((2, 2), '<f4')))
ROPE = {'full_attention': {'rope_type': 'proportional', 'partial_rotary_factor': 0.25, 'rope_theta': 1e6},
        'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4}}
C = dict(vocab_size=262144, vocab_size_per_layer_input=262144, hidden_size_per_layer_input=256, num_key_value_heads=4, head_dim=256,
         global_head_dim=512, num_global_key_value_heads=None, attention_k_eq_v=False, hidden_activation='gelu_pytorch_tanh',
         max_position_embeddings=131072, rms_norm_eps=1e-6, attention_bias=False, sliding_window=512, final_logit_softcapping=None,
         num_kv_shared_layers=0, use_double_wide_mlp=False, enable_moe_block=False, num_experts=None, top_k_experts=None,
         moe_intermediate_size=None, use_bidirectional_attention=None, rope_parameters=ROPE, tie_word_embeddings=True)
N = dict(GQA, vocab_size_per_layer_input=67, hidden_size_per_layer_input=8, head_dim=16, global_head_dim=32, sliding_window=4, num_hidden_layers=5,
         layer_types=every(2, layers=5), rope_parameters=ROPE)
CASES.add('gemma4_text', 'Gemma4ForCausalLM', C, dict(N, num_kv_shared_layers=2, use_double_wide_mlp=True, final_logit_softcapping=30.0), gemma4, '-e2b',
          v5=False)
CASES.add('gemma4_text', 'Gemma4ForCausalLM', C, dict(N, hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1), gemma4,
          '-31b', v5=False)


def nanochat(W, c):
    """Norms without weights; the rotation turns backwards."""
    n, d = c['num_attention_heads'], c['hidden_size'] // c['num_attention_heads']
    kv, eps = c['num_key_value_heads'] or n, c['rms_norm_eps']
    f, _ = frequencies(d, c['rope_theta'])
    h = rms(W.embed('model.embed_tokens', TOKENS, c['hidden_size']), eps)
    feed = plain(W, c, c['hidden_act'], names=('fc1', 'fc2'))
    for i in range(c['num_hidden_layers']):
        b = f'model.layers.{i}.'
        x = rms(h, eps)
        q, k, v = (heads(W.lin(x, f'{b}self_attn.{s}_proj', m * d, c['attention_bias']), d) for s, m in (('q', n), ('k', kv), ('v', kv)))
        q, k = (rms(rotate(y, -f), eps) for y in (q, k))
        h = h + W.lin(attend(q, k, v), b + 'self_attn.o_proj', c['hidden_size'], c['attention_bias'])
        h = h + feed(rms(h, eps), b, i)
    y = W.lin(rms(h, eps), 'lm_head', c['vocab_size'])
    return c['final_logit_softcapping'] * np.tanh(y / c['final_logit_softcapping'])


C = dict(LLAMA, num_key_value_heads=None, hidden_act='relu2', final_logit_softcapping=15.0)
CASES.add('nanochat', 'NanoChatForCausalLM', C, GQA, nanochat)
CASES.add('nanochat', 'NanoChatForCausalLM', C, dict(GQA, attention_bias=True), nanochat, '-bias')

if __name__ == '__main__':
    sys.exit(CASES.run(sys.argv))
