# SPDX-License-Identifier: GPL-3.0-or-later
# Evaluations of Gemma 3n and Gemma 4 in GGUF files, beside those of tiny_gguf.py: caches that
# layers share, embeddings of each layer, several streams.  What a graph computes: llama.cpp,
# src/models, read as a description.
import numpy as np

from tiny_gguf import ACT, Model, softmax


def unit(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


class Gemma(Model):
    def attention(self, x, b, i):
        o, T, local = self.o, len(x), self.o['is_window'](i)
        d = o['dk'] if local else o['dk_global']
        q = self.norm(self.lin(x, b + 'attn_q').reshape(T, -1, d), b + 'attn_q_norm')
        if i < o['layers'] - o['shared']:
            k = self.lin(x, b + 'attn_k').reshape(T, -1, d)
            v = self.lin(x, b + 'attn_v').reshape(T, -1, d) if self.has(b + 'attn_v') else k
            self.cache[local] = self.rotate(self.norm(k, b + 'attn_k_norm'), i), unit(v, o['eps'])
        k, v = self.cache[local]
        return self.lin(self.attend(self.rotate(q, i), k, v, i, scale=1.0), b + 'attn_output')

    def rotate(self, x, layer, rot=None, adjacent=None):
        freqs = self.o['freqs']
        if self.o['is_window'](layer):
            self.o['freqs'] = None
        y = super().rotate(x, layer, x.shape[-1], False)
        self.o['freqs'] = freqs
        return y

    def own(self, tokens, e):
        """Embeddings of each layer, [T, layers, width]."""
        n = self.o['ple']
        table = self.t['per_layer_token_embd.weight'][tokens].reshape(len(tokens), -1, n) * n**0.5
        x = self.lin(e, 'per_layer_model_proj').reshape(len(tokens), -1, n) * e.shape[1]**-0.5
        return (self.norm(x, 'per_layer_proj_norm') + table) * 0.5**0.5

    def embedded(self, x, b, i):
        g = ACT['gelu-tanh'](self.lin(x, b + 'inp_gate')) * self.ple[:, i]
        return self.norm(self.lin(g, b + 'proj'), b + 'post_norm')

    def experts(self, h, b):
        """Beside the network; the router reads the norm without weights."""
        z = unit(h, self.o['eps']) * h.shape[1]**-0.5 * self.t[b + 'ffn_gate_inp.scale']
        x, y = self.norm(h, b + 'pre_ffw_norm_2'), np.zeros_like(h)
        for t, s in enumerate(self.lin(z, b + 'ffn_gate_inp')):
            e = np.argsort(-s, kind='stable')[:self.o['topk']]
            for k, w in zip(e, softmax(s[e])):
                y[t] += w * self.expert(x[t], b, k)
        return self.norm(y, b + 'post_ffw_norm_2')

    def layer(self, h, i):
        b = f'blk.{i}.'
        h = h + self.norm(self.attention(self.norm(h, b + 'attn_norm'), b, i), b + 'post_attention_norm')
        y = self.network(self.norm(h, b + 'ffn_norm'), b)
        if self.has(b + 'ffn_gate_inp'):
            y = self.norm(y, b + 'post_ffw_norm_1') + self.experts(h, b)
        h = h + self.norm(y, b + 'post_ffw_norm')
        if self.o['ple']:
            h = h + self.embedded(h, b, i)
        return h * self.t.get(b + 'layer_output_scale.weight', 1)

    def start(self, tokens):
        self.cache = {}
        e = self.t['token_embd.weight'][tokens] * self.t['token_embd.weight'].shape[1]**0.5
        if self.o['ple']:
            self.ple = self.own(tokens, e)
        return e

    def end(self, h):
        y = self.norm(h, 'output_norm') @ self.t.get('output.weight', self.t['token_embd.weight']).T
        return self.o['logit_cap'] * np.tanh(y / self.o['logit_cap']) if self.o['logit_cap'] else y

    def run(self, tokens):
        h = self.start(tokens)
        for i in range(self.o['layers']):
            h = self.layer(h, i)
        return self.end(h)


class Streams(Gemma):
    """Gemma 3n: four streams, of which the first is computed."""

    def modes(self, x, b):
        y = self.lin(self.norm(x, b + 'altup_router_norm') / x.shape[1], b + 'altup_router')
        return np.tanh(y)

    def like(self, x, y):
        return x * np.sqrt((y * y).sum(-1, keepdims=True) / (x * x).sum(-1, keepdims=True))

    def layer(self, h, i):
        """h [streams, T, hidden]"""
        b, n = f'blk.{i}.', len(h)
        c = self.lin(self.modes(h[0], b), b + 'altup_predict_coef').reshape(-1, n, n)
        old = h + np.einsum('tos,sth->oth', c, h)
        x = self.norm(old[0], b + 'attn_norm')
        side = x + self.norm(self.lin(self.lin(x, b + 'laurel_l'), b + 'laurel_r'), b + 'laurel_post_norm')
        y = old[0] + self.norm(self.attention(x, b, i), b + 'post_attention_norm')
        y = (y + side) * 0.5**0.5
        x = self.norm(y, b + 'ffn_norm')
        g = self.lin(x, b + 'ffn_gate')
        if i < 10:
            g = np.maximum(g - g.mean(-1, keepdims=True) - 1.6448533535003662 * g.std(-1, keepdims=True, ddof=self.o['ddof']), 0)
        z = self.lin(ACT['gelu-tanh'](g) * self.lin(x, b + 'ffn_up'), b + 'ffn_down')
        y = y + self.norm(z, b + 'post_ffw_norm')
        c = self.lin(self.modes(y, b), b + 'altup_correct_coef') + 1
        new = old + np.einsum('ts,th->sth', c, y - old[0])
        new[1:] += self.embedded(new[0] * self.t[b + 'altup_correct_scale.weight'], b, i)
        return new

    def run(self, tokens):
        e = self.start(tokens)
        h = np.array([e] + [self.like(e @ w.T, e) for w in self.t['altup_proj.weight']])
        for i in range(self.o['layers']):
            h = self.layer(h, i)
        back = [self.like(x @ w.T, h[0]) for x, w in zip(h[1:], self.t['altup_unembd_proj.weight'])]
        return self.end((h[0] + sum(back)) / len(h))
