# SPDX-License-Identifier: GPL-3.0-or-later
# A writer of GGUF files and an evaluation of the models in them, which share nothing with
# the program under test.  Names, keys and what a graph computes: llama.cpp (llama-arch.cpp,
# src/models, gguf-py's constants), read as a description of the format.
import struct

import numpy as np


# ------------------------------------------------------------------- writing
def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(b)) + b


def value(v):
    if isinstance(v, bool):
        return struct.pack('<I?', 7, v)
    if isinstance(v, int):
        return struct.pack('<II', 4, v)
    if isinstance(v, float):
        return struct.pack('<If', 6, v)
    if isinstance(v, (str, bytes)):
        return struct.pack('<I', 8) + text(v)
    first = value(v[0])
    return struct.pack('<I', 9) + first[:4] + struct.pack('<Q', len(v)) + b''.join(value(x)[4:] for x in v)


def write_parts(path, keys, tensors, count):
    """Files as llama.cpp's gguf-split makes them; the name of the first."""
    names, n = list(tensors), -(-len(tensors) // count)
    for i in range(count):
        split = {'split.no': i, 'split.count': count, 'split.tensors.count': len(names)}
        write(f'{path}-{i + 1:05}-of-{count:05}.gguf', {**({} if i else keys), **split},
              {k: tensors[k] for k in names[n * i:n * i + n]})
    return f'{path}-00001-of-{count:05}.gguf'


def write(path, keys, tensors, version=3):
    """tensors: name -> array as PyTorch has it, the last dimension lying together."""
    align = keys.get('general.alignment', 32)
    out = [b'GGUF', struct.pack('<IQQ', version, len(tensors), len(keys))]
    out += [text(k) + value(v) for k, v in keys.items()]
    data, at = [], 0
    for name, t in tensors.items():
        b = np.ascontiguousarray(t, '<f4').tobytes()
        b += bytes(-len(b) % align)
        out.append(text(name) + struct.pack('<I', t.ndim) + struct.pack(f'<{t.ndim}Q', *t.shape[::-1]) +
                   struct.pack('<IQ', 0, at))
        data.append(b)
        at += len(b)
    head = b''.join(out)
    with open(path, 'wb') as f:
        f.write(head + bytes(-len(head) % align) + b''.join(data))


def write_rwkv(path, tensors):
    """rwkv.cpp's .bin, after its FILE_FORMAT.md."""
    emb = tensors['emb.weight']
    layers = sum(n.endswith('.ln1.weight') for n in tensors)
    with open(path, 'wb') as f:
        f.write(struct.pack('<6I', 0x67676d66, 101, *emb.shape, layers, 0))
        for name, t in tensors.items():
            f.write(struct.pack(f'<{3 + t.ndim}I', t.ndim, len(name), 0, *t.shape[::-1]) + name.encode() +
                    np.ascontiguousarray(t, '<f4').tobytes())


# ---------------------------------------------------------------- arithmetic
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    """Abramowitz and Stegun's series is too coarse: the integral, by its Taylor terms."""
    out, term = np.zeros_like(x), x.copy()
    for n in range(80):
        out += term / (2 * n + 1)
        term *= -x * x / (n + 1)
    return out * 2 / np.sqrt(np.pi)


ACT = {
    'silu': lambda x: x * sigmoid(x),
    'gelu': lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
    'gelu-tanh': lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    'relu2': lambda x: np.maximum(x, 0)**2,
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


class Model:
    """Tensors by name, and how they are put together: the options are those of run()."""

    def __init__(self, tensors, **options):
        self.t = {k: v.astype(np.float64) for k, v in tensors.items()}
        for name, f in [(k, v) for k, v in self.t.items() if k.endswith('.scale')]:
            w = name[:-6] + '.weight'
            if f.size > 1 and self.t[w].ndim < 3:
                continue  # Gemma 4's router
            self.t[w] = self.t[w] * f.reshape(-1, *[1] * (self.t[w].ndim - 1))
        self.o = dict(norm='rms', eps=1e-5, place='pre', rope='half', rot=None, theta=1e4, theta_window=None,
                      window=0, is_window=lambda i: True, rope_on=lambda i: True, scale=None, cap=0, logit_cap=0,
                      logits=1, embed=1, residual=1, act='silu', alibi=False, clip=0, topk=2, score='softmax',
                      renorm=True, route=1, heads=4, kv=2, dk=8, layers=2, before_rope=True, unit_qk=False,
                      shared_gate=False, mla=None, limit=0, linear=1, route_input=False, freqs=None,
                      groups=0, keep=0, chunk=0, stretch=lambda i, p: 1, yarn=None, sparsemixer=False, mix_heads=0, tiled=False, alone=False, gated_q=False, by_width=False, gated=None, sinks=lambda i: True, beside=False, v_scale=1, full_scaling=False, unit_inner=False, missing=False, router_cap=0, index=None, index_adjacent=False)
        self.o.update(options)

    def has(self, name):
        return name + '.weight' in self.t

    def lin(self, x, name, rows=None):
        w, b = self.t[name + '.weight'], self.t.get(name + '.bias')
        if rows:
            w, b = w[rows], None if b is None else b[rows]
        return x @ w.T + (0 if b is None else b)

    def norm(self, x, name, kind=None):
        w = self.t.get(name + '.weight')
        kind = kind or self.o['norm']
        if kind == 'rms':
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.o['eps'])
        else:
            x = x - x.mean(-1, keepdims=True)
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.o['eps'])
        return x * (1 if w is None else w) + self.t.get(name + '.bias', 0)

    # ------------------------------------------------------------ positions
    def rotate(self, x, layer, rot=None, adjacent=None):
        """x [T, heads, d]"""
        o = self.o
        if not o['rope'] or not o['rope_on'](layer):
            return x
        local = o['window'] and o['is_window'](layer)
        n = rot or o['rot'] or x.shape[-1]
        theta = o['theta_window'] if local and o['theta_window'] else o['theta']
        f = theta**(-np.arange(0, n, 2) / n)
        size = 1
        if o['freqs'] is not None:
            f = f / o['freqs']
        if o['yarn'] and not (local and o['full_scaling']):
            f, size = yarn(f, theta, n, **o['yarn'])
        if not (local and (o['theta_window'] or o['full_scaling'])):
            f = f / o['linear']
        a = np.arange(len(x))[:, None, None] * f
        c, s = np.cos(a) * size, np.sin(a) * size
        y = x.copy()
        adjacent = o['rope'] == 'adjacent' if adjacent is None else adjacent
        i, j = (slice(0, n, 2), slice(1, n, 2)) if adjacent else (slice(0, n // 2), slice(n // 2, n))
        y[..., i], y[..., j] = x[..., i] * c - x[..., j] * s, x[..., j] * c + x[..., i] * s
        return y

    def bias(self, T, layer, heads):
        """[heads, T, T] what is added to scores"""
        o, t, s = self.o, np.arange(T)[:, None], np.arange(T)[None]
        seen = s <= t
        if o['window'] and o['is_window'](layer):
            seen &= t - s < o['window']
        if o['chunk'] and o['is_window'](layer):
            seen &= t // o['chunk'] == s // o['chunk']
        out = np.where(seen, 0.0, -np.inf)[None].repeat(heads, 0)
        if o['alibi']:
            n = 2**int(np.floor(np.log2(heads)))
            slope = [2**(-8 * (h + 1) / n) if h < n else 2**(-4 * (2 * (h - n) + 1) / n) for h in range(heads)]
            out += np.array(slope)[:, None, None] * (s - t)
        return out

    # ------------------------------------------------------------ attention
    def normed(self, x, name, layer):
        if self.o['unit_qk'] and self.o['rope_on'](layer):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.o['eps'])
        if not self.has(name):
            return x
        if self.t[name + '.weight'].ndim == 1 and self.t[name + '.weight'].size != x.shape[-1]:
            return self.norm(x.reshape(len(x), -1), name).reshape(x.shape)
        return self.norm(x, name)

    def attend(self, q, k, v, layer, sinks=None, scale=None, extra=0):
        """q [T, heads, dk], k, v [T, kv, ..]"""
        o, T, heads = self.o, len(q), q.shape[1]
        k, v = (x.repeat(heads // x.shape[1], 1) for x in (k, v))
        s = np.einsum('thd,shd->hts', q, k) * (scale or o['scale'] or q.shape[-1]**(-1 if o['by_width'] else -0.5)) + extra
        if o['cap']:
            s = o['cap'] * np.tanh(s / o['cap'])
        s = s + self.bias(T, layer, heads)
        if sinks is not None:
            s = np.concatenate([s, sinks[:, None, None].repeat(T, 1)], -1)
        return np.einsum('hts,shd->thd', softmax(s)[..., :T], v).reshape(T, -1)

    def attention(self, x, b, i):
        o, T = self.o, len(x)
        if o['mla']:
            return self.latent(x, b, i)
        heads, kv = (n[i] if isinstance(n, list) else n for n in (o['heads'], o['kv']))
        nq, nk, dv = heads * o['dk'], kv * o['dk'], o.get('dv', o['dk'])
        if self.has(b + 'attn_qkv'):
            y = self.lin(x, b + 'attn_qkv')
            q, k, v = y[:, :nq], y[:, nq:nq + nk], y[:, nq + nk:]
        else:
            q, k, v = (self.lin(x, b + 'attn_' + c) for c in 'qkv')
        gate = self.lin(x, b + 'attn_gate') if o['gated'] else None
        if o['gated_q']:
            q, gate = (y.reshape(T, -1) for y in np.split(q.reshape(T, -1, 2 * o['dk']), 2, -1))
        if o['clip']:
            q, k, v = (np.clip(y, -o['clip'], o['clip']) for y in (q, k, v))
        q, k, v = q.reshape(T, -1, o['dk']), k.reshape(T, -1, o['dk']), v.reshape(T, -1, dv)
        if o['before_rope']:
            q, k = self.normed(q, b + 'attn_q_norm', i), self.normed(k, b + 'attn_k_norm', i)
        q, k = self.rotate(q, i), self.rotate(k, i)
        if not o['before_rope']:
            q, k = self.normed(q, b + 'attn_q_norm', i), self.normed(k, b + 'attn_k_norm', i)
        q = q * np.array([o['stretch'](i, p) for p in range(T)])[:, None, None]
        y = self.attend(q, k, v * o['v_scale'], i, self.t.get(b + 'attn_sinks.weight'))
        if gate is not None:
            y = y * sigmoid(gate)
        if self.has(b + 'attn_sub_norm'):
            y = self.norm(y, b + 'attn_sub_norm')
        return self.lin(y, b + 'attn_output')

    def chosen(self, x, latent, b, i, rot):
        """DeepSeek-V3.2's indexer: -inf where a key is not among the best of a token."""
        n, d, top = self.o['index']
        T, half = len(x), not self.o['index_adjacent']
        if self.has(b + 'indexer.attn_k'):
            k = self.lin(x, b + 'indexer.attn_k')
            k = k - k.mean(-1, keepdims=True)
            k = k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6)
            k = k * self.t[b + 'indexer.k_norm.weight'] + self.t[b + 'indexer.k_norm.bias']
            q = self.rotate(self.lin(latent, b + 'indexer.attn_q_b').reshape(T, n, d), i, rot, not half)
            k = self.rotate(k.reshape(T, 1, d), i, rot, not half)[:, 0]
            w = self.lin(x, b + 'indexer.proj')
            s = np.einsum('th,ths->ts', w, np.maximum(np.einsum('thd,sd->ths', q, k), 0))
            s = np.where(np.arange(T)[None] <= np.arange(T)[:, None], s, -np.inf)
            self.kept = np.argsort(np.argsort(-s, -1, kind='stable'), -1, kind='stable') < top
        return np.where(self.kept, 0.0, -np.inf)

    def latent(self, x, b, i):
        o, T = self.o, len(x)
        nope, rot, dv, rank = (o['mla'][k] for k in ('nope', 'rot', 'dv', 'rank'))
        if self.has(b + 'attn_q_a'):
            q = self.lin(self.norm(self.lin(x, b + 'attn_q_a'), b + 'attn_q_a_norm'), b + 'attn_q_b')
        else:
            q = self.lin(x, b + 'attn_q')
        q = q.reshape(T, -1, nope + rot)
        y = self.lin(x, b + 'attn_kv_a_mqa')
        c, kr = self.norm(y[:, :rank], b + 'attn_kv_a_norm'), y[:, rank:].reshape(T, 1, rot)
        if self.has(b + 'attn_k_b'):
            # k_b [heads, rank, nope], v_b [heads, dv, rank]
            kn = np.einsum('tr,hrn->thn', c, self.t[b + 'attn_k_b.weight'])
            v = np.einsum('tr,hvr->thv', c, self.t[b + 'attn_v_b.weight'])
        else:
            w = self.lin(c, b + 'attn_kv_b').reshape(T, -1, nope + dv)
            kn, v = w[..., :nope], w[..., nope:]
        qr, kr = self.rotate(q[..., nope:], i, rot), self.rotate(kr, i, rot)
        extra = self.chosen(x, self.norm(self.lin(x, b + 'attn_q_a'), b + 'attn_q_a_norm'), b, i, rot) if o['index'] else 0
        k = np.concatenate([kn, kr.repeat(kn.shape[1], 1)], -1)
        q = np.concatenate([q[..., :nope], qr], -1)
        return self.lin(self.attend(q, k, v, i, scale=o['scale'], extra=extra), b + 'attn_output')

    # -------------------------------------------------------------- networks
    def glu(self, g, u):
        o = self.o
        if o['act'] == 'oai':
            g, u = np.minimum(g, o['limit']), np.clip(u, -o['limit'], o['limit'])
            return g * sigmoid(1.702 * g) * (u + 1)
        return ACT[o['act']](g) * u

    def network(self, x, b, end=''):
        up = self.lin(x, b + 'ffn_up' + end)
        if self.has(b + 'ffn_gate' + end):
            y = self.glu(self.lin(x, b + 'ffn_gate' + end), up)
        elif self.t[b + 'ffn_down' + end + '.weight'].shape[1] * 2 == up.shape[1]:
            g, u = np.split(up, 2, -1)
            y = self.glu(g, u)
        else:
            y = ACT[self.o['act']](up)
        if self.has(b + 'ffn_sub_norm'):
            y = self.norm(y, b + 'ffn_sub_norm')
        return self.lin(y, b + 'ffn_down' + end)

    def expert(self, x, b, e):
        def lin(x, name):
            y = x @ self.t[f'{b}{name}.weight'][e].T
            return y + self.t[f'{b}{name}.bias'][e] if f'{b}{name}.bias' in self.t else y
        u = lin(x, 'ffn_up_exps')
        y = self.glu(lin(x, 'ffn_gate_exps'), u) if self.has(b + 'ffn_gate_exps') else ACT[self.o['act']](u)
        return lin(y, 'ffn_down_exps')

    def route(self, z, b):
        """Chosen experts and their weights for one token."""
        o = self.o
        if o['sparsemixer']:
            return sparsemixer(z)
        if o['router_cap']:
            z = o['router_cap'] * np.tanh(z / o['router_cap'])
        p = softmax(z) if o['score'] == 'softmax' else sigmoid(z) if o['score'] == 'sigmoid' else z
        c = p + self.t.get(b + 'exp_probs_b.bias', 0)
        if o['groups']:
            g = c.reshape(o['groups'], -1)
            worth = np.sort(g, -1)[:, -2:].sum(-1)
            out = np.argsort(-worth, kind='stable')[o['keep']:]
            g = g.copy()
            g[out] = -np.inf
            c = g.reshape(-1)
        e = np.argsort(-c, kind='stable')[:o['topk']]
        w = softmax(z[e]) if o['score'] == 'chosen' else p[e]
        if o['renorm'] and o['score'] != 'chosen':
            w = w / w.sum()
        return e, w * o['route']

    def experts(self, x, b):
        y = np.zeros_like(x)
        for t, z in enumerate(self.lin(x, b + 'ffn_gate_inp')):
            for e, w in zip(*self.route(z, b)):
                y[t] += self.expert(x[t] * w, b, e) if self.o['route_input'] else w * self.expert(x[t], b, e)
        if self.has(b + 'ffn_up_shexp'):
            s = self.network(x, b, '_shexp')
            if self.has(b + 'ffn_gate_inp_shexp'):
                s = s * sigmoid(x @ self.t[b + 'ffn_gate_inp_shexp.weight'].reshape(-1, 1))
            y = y + s
        return y

    def feed(self, x, b):
        if self.o['beside']:
            return (self.experts(x, b) + self.network(x, b)) * 0.5**0.5
        return self.experts(x, b) if self.has(b + 'ffn_gate_inp') else self.network(x, b)

    # ------------------------------------------------------------ state mixers
    def conv(self, x, w, bias):
        taps = w.shape[1]
        pad = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
        return sum(pad[k:k + len(x)] * w[:, k] for k in range(taps)) + bias

    def mamba(self, x, b):
        t, y = self.t, self.lin(x, b + 'ssm_in')
        u, z = np.split(y, 2, -1)
        u = ACT['silu'](self.conv(u, t[b + 'ssm_conv1d.weight'], t.get(b + 'ssm_conv1d.bias', 0)))
        A = t[b + 'ssm_a']
        n = A.shape[1]
        y = self.lin(u, b + 'ssm_x')
        dt, B, C = y[:, :-2 * n], y[:, -2 * n:-n], y[:, -n:]
        for name in ('dt', 'b', 'c'):
            if self.o['unit_inner'] or self.has(f'{b}ssm_{name}_norm'):
                dt, B, C = (self.norm(v, f'{b}ssm_{name}_norm') if m == name else v
                            for m, v in zip(('dt', 'b', 'c'), (dt, B, C)))
        dt = softplus(self.lin(dt, b + 'ssm_dt'))
        h, out = np.zeros_like(A), []
        for i in range(len(x)):
            h = np.exp(dt[i][:, None] * A) * h + (dt[i] * u[i])[:, None] * B[i]
            out.append(h @ C[i] + t[b + 'ssm_d'] * u[i])
        return self.lin(np.array(out) * ACT['silu'](z), b + 'ssm_out')

    def mamba2(self, x, b):
        o, t, T = self.o, self.t, len(x)
        di, n, g = o['inner'], o['state'], o['mix_groups']
        heads = t[b + 'ssm_a'].size
        y = self.lin(x, b + 'ssm_in')
        z, xbc, dt = y[:, :di], y[:, di:-heads], y[:, -heads:]
        xbc = ACT['silu'](self.conv(xbc, t[b + 'ssm_conv1d.weight'], t.get(b + 'ssm_conv1d.bias', 0)))
        u = xbc[:, :di].reshape(T, heads, -1)
        B, C = (v.reshape(T, g, n).repeat(heads // g, 1) for v in np.split(xbc[:, di:], 2, -1))
        dt = softplus(dt + t[b + 'ssm_dt.bias'])
        A, D = t[b + 'ssm_a'].reshape(-1), t[b + 'ssm_d'].reshape(-1, 1)
        h, out = np.zeros((heads, di // heads, n)), []
        for i in range(T):
            h = np.exp(dt[i] * A)[:, None, None] * h + (dt[i][:, None] * u[i])[..., None] * B[i][:, None]
            out.append(np.einsum('hdn,hn->hd', h, C[i]) + D * u[i])
        y = np.array(out).reshape(T, di) * ACT['silu'](z)
        if self.has(b + 'ssm_norm'):
            y = self.norm_groups(y.reshape(T, g, -1), t[b + 'ssm_norm.weight'])
        return self.lin(y.reshape(T, di), b + 'ssm_out')

    def norm_groups(self, y, w):
        return y / np.sqrt((y * y).mean(-1, keepdims=True) + self.o['eps']) * w

    def shortconv(self, x, b):
        B, C, u = np.split(self.lin(x, b + 'shortconv.in_proj'), 3, -1)
        return self.lin(C * self.conv(B * u, self.t[b + 'shortconv.conv.weight'], 0), b + 'shortconv.out_proj')

    def before(self, x):
        return np.concatenate([np.zeros_like(x[:1]), x[:-1]]) - x

    def rwkv7(self, x, b):
        """arXiv:2503.14456; what the first layer's values are is kept in `first`."""
        t, T, step = self.t, len(x), self.before(x)
        n = lambda k: t[f'{b}time_mix_{k}.weight']
        xr, xw, xk, xv, xa, xg = (x + step * mu for mu in n('lerp_fused').reshape(6, -1))
        r, k, v = (self.lin(y, b + 'time_mix_' + c) for y, c in ((xr, 'receptance'), (xk, 'key'), (xv, 'value')))
        w = np.exp(-np.exp(-0.5) * sigmoid(np.tanh(xw @ n('w1').T) @ n('w2').T + n('w0')))
        a = sigmoid(xa @ n('a1').T @ n('a2').T + n('a0'))
        g = sigmoid(xg @ n('g1').T) @ n('g2').T
        if b == 'blk.0.':
            self.first = v
        else:
            v = v + (self.first - v) * sigmoid(xv @ n('v1').T @ n('v2').T + n('v0'))
        size = self.o['head']
        h = lambda y: y.reshape(T, -1, size)
        kk = h(k * n('k_k'))
        kk = kk / np.sqrt((kk * kk).sum(-1, keepdims=True))
        k = k * (1 + (a - 1) * n('k_a'))
        r, k, v, w, a = map(h, (r, k, v, w, a))
        S, out = np.zeros((r.shape[1], size, size)), []
        for i in range(T):
            S = S * w[i][:, None] - np.einsum('hij,hj->hi', S, kk[i])[..., None] * (kk[i] * a[i])[:, None] + \
                v[i][..., None] * k[i][:, None]
            out.append(np.einsum('hij,hj->hi', S, r[i]))
        y = self.head_norm(np.array(out), b) + ((r * k * n('r_k').reshape(-1, size)).sum(-1, keepdims=True) * v).reshape(T, -1)
        return self.lin(y * g, b + 'time_mix_output')

    def rwkv6(self, x, b):
        """arXiv:2404.05892"""
        t, T, step, size = self.t, len(x), self.before(x), self.o['head']
        n = lambda k: t[f'{b}time_mix_{k}.weight']
        low = np.tanh((x + step * n('lerp_x').reshape(-1)) @ n('w1').T).reshape(T, 5, -1)
        more = np.einsum('tcd,chd->cth', low, n('w2')) + n('lerp_fused').reshape(5, 1, -1)
        xw, xk, xv, xr, xg = x + step * more
        r, k, v, g = (self.lin(y, b + 'time_mix_' + c) for y, c in ((xr, 'receptance'), (xk, 'key'), (xv, 'value'), (xg, 'gate')))
        w = np.exp(-np.exp(np.tanh(xw @ n('decay_w1').T) @ n('decay_w2').T + n('decay')))
        r, k, v, w = (y.reshape(T, -1, size) for y in (r, k, v, w))
        S, out = np.zeros((r.shape[1], size, size)), []
        for i in range(T):
            kv = k[i][..., None] * v[i][:, None]
            out.append(np.einsum('hk,hkv->hv', r[i], S + n('first')[..., None] * kv))
            S = S * w[i][..., None] + kv
        y = self.head_norm(np.array(out), b) * g * sigmoid(g)
        y = self.lin(y, b + 'time_mix_output')
        return y * 2**(int(b.split('.')[1]) // self.o['rescale'])

    def head_norm(self, y, b):
        y = y - y.mean(-1, keepdims=True)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 64e-5)
        return y.reshape(len(y), -1) * self.t[b + 'time_mix_ln.weight'] + self.t[b + 'time_mix_ln.bias']

    def channels(self, x, b):
        step = self.before(x)
        k = np.maximum(self.lin(x + step * self.t[b + 'channel_mix_lerp_k.weight'].reshape(-1), b + 'channel_mix_key'), 0)**2
        y = self.lin(k, b + 'channel_mix_value') * 2**(int(b.split('.')[1]) // self.o.get('rescale', 100))
        if self.has(b + 'channel_mix_receptance'):
            y = y * sigmoid(self.lin(x + step * self.t[b + 'channel_mix_lerp_r.weight'].reshape(-1), b + 'channel_mix_receptance'))
        return y

    # ------------------------------------------------------------------ layers
    def delta(self, x, b):
        """Gated DeltaNet (arXiv:2412.06464), as qwen3next stores it: the heads of keys are groups of value heads."""
        o, t, T = self.o, self.t, len(x)
        G, n, d = o['mix_groups'], o['mix_heads'], o['state']
        if self.has(b + 'attn_qkv'):
            qkv, z = self.lin(x, b + 'attn_qkv'), self.lin(x, b + 'attn_gate')
        else:
            y = self.lin(x, b + 'ssm_in').reshape(T, G, -1)
            v = n // G * d
            q, k, v, z = (part.reshape(T, -1) for part in np.split(y, [d, 2 * d, 2 * d + v], -1))
            qkv = np.concatenate([q, k, v], -1)
        qkv = ACT['silu'](self.conv(qkv, t[b + 'ssm_conv1d.weight'], 0))
        q, k, v = (y.reshape(T, -1, d) for y in np.split(qkv, [G * d, 2 * G * d], -1))
        if self.has(b + 'ssm_ba'):
            beta, step = (y.reshape(T, -1) for y in np.split(self.lin(x, b + 'ssm_ba').reshape(T, G, -1), 2, -1))
        else:
            beta, step = self.lin(x, b + 'ssm_beta'), self.lin(x, b + 'ssm_alpha')
        decay = np.exp(t[b + 'ssm_a'].reshape(-1) * softplus(step + t[b + 'ssm_dt.bias']))
        q, k = (y / np.sqrt((y * y).sum(-1, keepdims=True)) for y in (q, k))
        spread = (lambda y: np.tile(y, (1, n // G, 1))) if o['tiled'] else (lambda y: y.repeat(n // G, 1))
        q, k, beta = spread(q) * d**-0.5, spread(k), sigmoid(beta)
        S, out = np.zeros((n, d, d)), []
        for i in range(T):
            S = S * decay[i][:, None, None]
            new = beta[i][:, None] * (v[i] - np.einsum('hvk,hk->hv', S, k[i]))
            S = S + new[..., None] * k[i][:, None]
            out.append(np.einsum('hvk,hk->hv', S, q[i]))
        y = self.norm(np.array(out), b + 'ssm_norm', 'rms').reshape(T, -1)
        return self.lin(y * ACT['silu'](z), b + 'ssm_out')

    def kda(self, x, b):
        """Kimi Delta Attention (arXiv:2510.26692): a decay for each component of a key."""
        t, T = self.t, len(x)
        q, k, v = (ACT['silu'](self.conv(self.lin(x, b + 'attn_' + c), t[b + f'ssm_conv1d_{c}.weight'].reshape(-1, 4), 0)) for c in 'qkv')
        n = t[b + 'ssm_a'].size
        step = softplus(self.lin(self.lin(x, b + 'ssm_f_a'), b + 'ssm_f_b') + t[b + 'ssm_dt.bias'])
        q, k, v, step = (y.reshape(T, n, -1) for y in (q, k, v, step))
        decay = np.exp(t[b + 'ssm_a'].reshape(-1, 1) * step)
        q, k = (y / np.sqrt((y * y).sum(-1, keepdims=True)) for y in (q, k))
        beta, d = sigmoid(self.lin(x, b + 'ssm_beta')), q.shape[-1]
        S, out = np.zeros((n, d, d)), []
        for i in range(T):
            S = S * decay[i][:, None]
            S = S + (beta[i][:, None] * (v[i] - np.einsum('hvk,hk->hv', S, k[i])))[..., None] * k[i][:, None]
            out.append(np.einsum('hvk,hk->hv', S, q[i]) * d**-0.5)
        g = sigmoid(self.lin(self.lin(x, b + 'ssm_g_a'), b + 'ssm_g_b'))
        return self.lin(self.norm(np.array(out), b + 'ssm_norm').reshape(T, -1) * g, b + 'attn_output')

    def mixing(self, x, b, i):
        if self.has(b + 'ssm_f_a'):
            return self.kda(x, b)
        if self.has(b + 'ssm_in') and self.has(b + 'attn_q'):
            return self.mamba2(x, b) + self.attention(x, b, i)
        if self.o['mix_heads'] and self.has(b + 'ssm_out'):
            return self.delta(x, b)
        if self.has(b + 'shortconv.in_proj'):
            return self.shortconv(x, b)
        if self.has(b + 'ssm_x'):
            return self.mamba(x, b)
        if self.has(b + 'ssm_in'):
            return self.mamba2(x, b)
        return self.attention(x, b, i)

    def second(self, b):
        """Name of the norm before the network."""
        names = {'pre': ['ffn_norm', 'post_attention_norm', 'attn_output_norm']}.get(self.o['place'], ['ffn_norm'])
        return b + next((n for n in names if self.has(b + n)), 'ffn_norm')

    def layer(self, h, i):
        b, o = f'blk.{i}.', self.o
        r = o['residual']
        if self.has(b + 'time_mix_key'):
            h = h + (self.rwkv7 if self.has(b + 'time_mix_r_k') else self.rwkv6)(self.norm(h, b + 'attn_norm'), b)
            return h + self.channels(self.norm(h, b + 'attn_norm_2'), b)
        if o['place'] == 'post':
            h = h + self.norm(self.mixing(h, b, i), b + 'post_attention_norm')
            return h + self.norm(self.feed(h, b), b + 'post_ffw_norm')
        x = self.norm(h, b + 'attn_norm')
        if o['alone']:
            mixes = self.has(b + 'ssm_in') or self.has(b + 'attn_q')
            return h + (self.mixing(x, b, i) if mixes else self.feed(x, b))
        if o['place'] == 'parallel':
            y = x
            if self.has(b + 'attn_norm_2'):
                x = self.norm(h, b + 'attn_norm_2')
            elif self.has(b + 'ffn_norm'):
                y = self.norm(h, b + 'ffn_norm')
            return h + self.mixing(x, b, i) + self.feed(y, b)
        if o['missing']:
            h = h + self.mixing(x, b, i) if self.has(b + 'attn_q') else h
            return h + self.feed(self.norm(h, b + 'ffn_norm'), b) if self.has(b + 'ffn_up') else h
        y = self.mixing(x, b, i)
        if self.has(b + 'ffn_norm_exps'):  # Arctic: experts read the layer's input
            r = h + y
            return r + self.network(self.norm(r, b + 'ffn_norm'), b) + self.experts(self.norm(h, b + 'ffn_norm_exps'), b)
        if o['place'] == 'sandwich':
            y = self.norm(y, b + ('post_attention_norm' if self.has(b + 'post_attention_norm') else 'attn_output_norm'))
        h = h + r * y
        if not self.has(b + 'ffn_down') and not self.has(b + 'ffn_down_exps'):
            return h
        y = self.feed(self.norm(h, self.second(b)), b)
        if o['place'] == 'sandwich':
            y = self.norm(y, b + ('post_ffw_norm' if self.has(b + 'post_ffw_norm') else 'layer_output_norm'))
        return h + r * y

    def run(self, tokens):
        """[T, vocabulary]"""
        o, t = self.o, self.t
        h = t['token_embd.weight'][tokens] * o['embed']
        if self.has('position_embd'):
            h = h + t['position_embd.weight'][:len(tokens)]
        if self.has('token_embd_norm') and self.has('output_norm'):
            h = self.norm(h, 'token_embd_norm')
        for i in range(o['layers']):
            h = self.layer(h, i)
        h = self.norm(h, 'output_norm' if self.has('output_norm') or not self.has('token_embd_norm') else 'token_embd_norm')
        w = t.get('output.weight', t['token_embd.weight'])
        y = (h @ w.T + t.get('output.bias', 0)) * o['logits']
        return o['logit_cap'] * np.tanh(y / o['logit_cap']) if o['logit_cap'] else y


def sparsemixer(z, jitter=0.01):
    """Phi-3.5-MoE's code: twice the largest, weighed among those within a band of it."""
    chosen, weights, left = [], [], z.copy()
    for _ in range(2):
        top = left.max()
        band = (top - z) / np.maximum(np.abs(z), top) <= 2 * jitter
        p = np.exp(np.where(band, left, -np.inf) - top)
        e = int(left.argmax())
        chosen.append(e)
        weights.append(p[e] / p.sum())
        left[e] = -np.inf
    return chosen, np.array(weights)


def yarn(f, theta, n, factor, orig, fast=32, slow=1, truncate=True, size=None):
    """arXiv:2309.00071: frequencies and the factor on cosines and sines."""
    def dim(r):
        return n * np.log(orig / (r * 2 * np.pi)) / (2 * np.log(theta))
    lo, hi = dim(fast), dim(slow)
    if truncate:
        lo, hi = np.floor(lo), np.ceil(hi)
    lo, hi = max(lo, 0), min(hi, n - 1)
    g = np.clip((np.arange(n // 2) - lo) / max(hi - lo, 1e-3), 0, 1)
    return f * (1 - g) + f / factor * g, 1 + 0.1 * np.log(factor) if size is None else size
