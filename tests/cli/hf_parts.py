# SPDX-License-Identifier: GPL-3.0-or-later
# Parts that the evaluations in hf_moe.py, hf_latent.py and hf_state.py have in common.
import json
import subprocess

import numpy as np

from tiny_hf import ACT, TOKENS, VOCAB, attend, causal, heads, rms, rotate, sigmoid, softmax  # noqa: F401

H, FF, WIDE, T = 32, 40, 16, len(TOKENS)  # hidden, dense network, expert; tokens
SIZES = dict(vocab_size=VOCAB, hidden_size=H, intermediate_size=FF, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64)


def freqs(dims, theta):
    return theta**(-np.arange(0, dims, 2) / dims)


def mlp(w, x, name, n, act='silu', bias=False, gate='gate_proj', up='up_proj', down='down_proj'):
    g = ACT[act](w.lin(x, f'{name}.{gate}', n, bias)) * w.lin(x, f'{name}.{up}', n, bias)
    return w.lin(g, f'{name}.{down}', x.shape[-1], bias)


def gqa(w, x, name, n=4, kv=2, d=8, f=None, size=1.0, bias=False, o_bias=None, norm=None, adjacent=False, o='o_proj',
        after=None, sinks=None, **more):
    """norm(x, name): of queries and keys [T, heads, d] before the rotation; after: of those after it."""
    q, k, v = (heads(w.lin(x, f'{name}.{c}_proj', m * d, bias), d) for c, m in (('q', n), ('k', kv), ('v', kv)))
    if norm:
        q, k = norm(q, f'{name}.q_norm'), norm(k, f'{name}.k_norm')
    if f is not None:
        q, k = rotate(q, f, size, adjacent), rotate(k, f, size, adjacent)
    if after:
        q, k = after(q, 'q'), after(k, 'k')
    y = attend(q, k, v, sinks=sinks, **more)
    return w.lin(y, f'{name}.{o}', x.shape[-1], bias if o_bias is None else o_bias)


def top(scores, k):
    """The k greatest of each row."""
    return np.argsort(-scores, axis=-1, kind='stable')[..., :k]


def spread(index, weight, n):
    """[T, k] of each -> [T, n], 0 where an expert is not chosen."""
    out = np.zeros((len(index), n))
    np.put_along_axis(out, index, weight, -1)
    return out


def take(a, index):
    return np.take_along_axis(a, index, -1)


def mix(x, share, expert):
    """share [T, E]; expert(e, x)"""
    return sum(share[:, e:e + 1] * expert(e, x) for e in range(share.shape[1]))


def softmax_top(logits, k, renorm, scale=1.0):
    s = softmax(logits)
    i = top(s, k)
    g = take(s, i)
    return spread(i, scale * (g / g.sum(-1, keepdims=True) if renorm else g), s.shape[-1])


def top_softmax(logits, k):
    i = top(logits, k)
    return spread(i, softmax(take(logits, i)), logits.shape[-1])


def noaux(logits, bias, k, renorm=True, scale=1.0, groups=1, keep=1, score=sigmoid, top2=2):
    """DeepSeek-V3's choice: sums of the two best of a group, a bias that only steers."""
    s = score(logits)
    c = s + bias
    if groups > 1:
        g = np.sort(c.reshape(len(c), groups, -1), -1)[..., -top2:].sum(-1)
        mask = spread(top(g, keep), np.ones((len(c), keep)), groups)
        c = np.where(mask.repeat(c.shape[-1] // groups, -1) > 0, c, -np.inf)
    i = top(c, k)
    g = take(s, i)
    if renorm:
        g = g / (g.sum(-1, keepdims=True) + 1e-20)
    return spread(i, g * scale, s.shape[-1])


def each(w, name, n, gate='gate_proj', up='up_proj', down='down_proj', act='silu'):
    """One set of tensors for each expert."""
    return lambda e, x: mlp(w, x, f'{name}.{e}', n, act, gate=gate, up=up, down=down)


def stacked(w, name, E, n, act='silu', turned=False):
    """gate_up_proj [E, 2n, H], or turned [E, H, 2n]."""
    def expert(e, x):
        h = x.shape[-1]
        a = w(f'{name}.gate_up_proj', *((E, h, 2 * n) if turned else (E, 2 * n, h)), size=h**-0.5)[e]
        b = w(f'{name}.down_proj', *((E, n, h) if turned else (E, h, n)), size=n**-0.5)[e]
        y = x @ (a if turned else a.T)
        return (ACT[act](y[:, :n]) * y[:, n:]) @ (b if turned else b.T)
    return expert


def rms_heads(w, eps, offset=0.0):
    return lambda x, name: w.rms(x, name, eps, offset)


def rms_flat(w, eps):
    """A norm over all heads."""
    return lambda x, name: w.rms(x.reshape(len(x), -1), name, eps).reshape(x.shape)


def pre(w, L, mixer, network, eps, norm=None, stem='model.', names=('input_layernorm', 'post_attention_layernorm'),
        layers='layers', embed='embed_tokens', last='norm', tied=False, head='lm_head', scale=1.0, residual=1.0):
    """mixer(x, layer's name, i) and network(..), each after a norm; network None: none."""
    norm = norm or (lambda x, name: w.rms(x, name, eps))
    x = w.embed(f'{stem}{embed}', TOKENS, H) * scale
    for i in range(L):
        b = f'{stem}{layers}.{i}'
        x = x + residual * mixer(norm(x, f'{b}.{names[0]}'), b, i)
        if network:
            x = x + residual * network(norm(x, f'{b}.{names[1]}'), b, i)
    x = norm(x, f'{stem}{last}')
    return x @ w(f'{stem}{embed}.weight', VOCAB, H).T if tied else w.lin(x, head, VOCAB)


def steps(r, name, folder, n=3):
    """Tokens that are made one by one, from caches and states, are those that the logits of the
    whole sequence say."""
    def job():
        p = subprocess.run([r.nmbench, 'generate', folder, '--tokens', ','.join(map(str, TOKENS)), '-n', str(n), '--ignore-eos',
                            '--json'], capture_output=True, text=True, env=r.env)
        if p.returncode:
            return f'{name}: generate: exit code {p.returncode}: {p.stderr.strip()}'
        made = json.loads(p.stdout)['tokens'][-n:]
        q = r.logits(folder, TOKENS + made[:-1])
        want = np.array(json.loads(q.stdout)['logits'])[len(TOKENS) - 1:].argmax(-1).tolist() if not q.returncode else q.stderr
        return None if made == want else f'{name}: step by step {made}, at once {want}'
    r.jobs.append(r.pool.submit(job))


def run(argv, cases, Runner, Weights, stepwise=True):
    r = Runner(argv[1], argv[2])
    for name in argv[3:] or list(cases):
        w = Weights(name)
        configs, want = cases[name](w)
        r.check(name, configs, w, want)
        if stepwise:
            steps(r, name, f'{r.folder}/{name}.{next(iter(configs))}')
    return r.done()
