# SPDX-License-Identifier: GPL-3.0-or-later
# Checkpoints as Hugging Face publishes them: a writer of safetensors and config.json, a runner
# that compares logits, and the arithmetic that evaluations of families are written with.
# Shares nothing with the program under test.  An evaluation asks Weights for a tensor by its
# published name and shape; what it has asked for is what the file then holds.
import json
import os
import struct
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

TOKENS = [3, 17, 42, 9, 60, 3, 25, 11, 54]
VOCAB = 67


# --------------------------------------------------------------------- files
def stored(a, dtype):
    """Bytes of the values in that type, and the values that these stand for."""
    a = np.ascontiguousarray(a, '<f4')
    if dtype == 'BF16':
        u = (a.view('<u4') >> 16).astype('<u2')
        return u.tobytes(), (u.astype('<u4') << 16).view('<f4').astype(np.float64)
    a = a.astype({'F16': '<f2', 'F32': '<f4'}[dtype])
    return a.tobytes(), a.astype(np.float64)


def write_tensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    head, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [at, at + len(data)]}
        at += len(data)
    h = json.dumps(head).encode()
    h += b' ' * (-len(h) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h + b''.join(d for _, _, d in tensors.values()))


def write_checkpoint(folder, tensors, shards=1):
    """One file, or an index and so many."""
    os.makedirs(folder, exist_ok=True)
    if shards == 1:
        write_tensors(f'{folder}/model.safetensors', tensors)
        return
    names, index = list(tensors), {}
    for i in range(shards):
        file = f'model-{i + 1:05d}-of-{shards:05d}.safetensors'
        write_tensors(f'{folder}/{file}', {n: tensors[n] for n in names[i::shards]})
        index.update({n: file for n in names[i::shards]})
    total = sum(len(d) for _, _, d in tensors.values())
    with open(f'{folder}/model.safetensors.index.json', 'w') as f:
        json.dump({'metadata': {'total_size': total}, 'weight_map': index}, f)


def write_config(folder, config):
    os.makedirs(folder, exist_ok=True)
    with open(f'{folder}/config.json', 'w') as f:
        json.dump(config, f, indent=2)


class Weights:
    """Tensors by their published names, drawn when they are first asked for."""

    def __init__(self, seed='', dtypes=('F32', 'F16', 'BF16')):
        self.seed, self.dtypes = seed, dtypes
        self.file, self.value = {}, {}

    def __call__(self, name, *shape, size=None, around=0.0, dtype=None):
        if name in self.value:
            assert self.value[name].shape == shape, f'{name}: {shape} after {self.value[name].shape}'
            return self.value[name]
        key = zlib.crc32(f'{self.seed} {name}'.encode())
        size = size if size is not None else 1 / np.sqrt(shape[-1])
        a = around + size * np.random.default_rng(key).standard_normal(shape)
        return self.put(name, a, dtype or self.dtypes[key % len(self.dtypes)])

    def put(self, name, values, dtype='F32'):
        data, self.value[name] = stored(values, dtype)
        self.file[name] = (dtype, np.shape(values), data)
        return self.value[name]

    def raw(self, name, dtype, array):
        """A tensor that the evaluation does not use, or not as it is stored."""
        a = np.asarray(array)
        self.file[name] = (dtype, a.shape, np.ascontiguousarray(a).tobytes())

    def embed(self, name, tokens, width, rows=VOCAB, size=0.1):
        return self(name + '.weight', rows, width, size=size)[np.asarray(tokens)]

    def lin(self, x, name, n, bias=False):
        y = x @ self(name + '.weight', n, x.shape[-1]).T
        return y + self(name + '.bias', n, size=0.2) if bias else y

    def conv1d(self, x, name, n):
        """OpenAI's: stored [in, out], always with a bias."""
        return x @ self(name + '.weight', x.shape[-1], n, size=x.shape[-1]**-0.5) + self(name + '.bias', n, size=0.2)

    def rms(self, x, name, eps, offset=0.0):
        w = self(name + '.weight', x.shape[-1], size=0.2, around=1 - offset)
        return rms(x, eps) * (w + offset)

    def layer(self, x, name, eps=1e-5, bias=True, offset=0.0):
        y = centred(x, eps) * (self(name + '.weight', x.shape[-1], size=0.2, around=1 - offset) + offset)
        return y + self(name + '.bias', x.shape[-1], size=0.2) if bias else y


# -------------------------------------------------------------------- runner
class Runner:
    """Checks run two at a time; done() waits and says how many differed."""

    def __init__(self, nmbench, folder, tol=1e-4):
        self.nmbench, self.folder, self.tol = nmbench, folder, tol
        self.pool, self.jobs, self.env = ThreadPoolExecutor(2), [], dict(os.environ)
        inner = f'{os.path.dirname(nmbench)}/.libs'
        if os.path.exists(f'{inner}/nmbench'):  # libtool's wrapper takes longer than the program
            self.nmbench, self.env['LD_LIBRARY_PATH'] = f'{inner}/nmbench', inner

    def logits(self, folder, tokens):
        return subprocess.run([self.nmbench, 'logits', folder, '--tokens', ','.join(map(str, tokens)), '--json'],
                              capture_output=True, text=True, env=self.env)

    def one(self, name, folder, want, tokens):
        p = self.logits(folder, tokens)
        if p.returncode:
            return f'{name}: exit code {p.returncode}: {p.stderr.strip()}'
        got = np.array(json.loads(p.stdout)['logits'])
        want = np.asarray(want)
        if got.shape != want.shape:
            return f'{name}: found logits of shape {got.shape}, expected {want.shape}'
        over = np.abs(got - want) - self.tol * (1 + np.abs(want))
        if not over.max() <= 0:
            at = np.unravel_index(np.nan_to_num(over, nan=np.inf).argmax(), over.shape)
            first = int(np.flatnonzero((over > 0).any(1))[0]) if np.isfinite(over).all() else -1
            return (f'{name}: position {at[0]} token {at[1]}: found {got[at]:.6g}, expected {want[at]:.6g}'
                    f' (first position that differs: {first})')
        return None

    def check(self, name, configs, weights, want, tokens=TOKENS, shards=1):
        """configs: label -> config.json; all with the same tensors and logits."""
        base = f'{self.folder}/{name}'
        write_checkpoint(base, weights.file, shards)
        files = os.listdir(base)
        for label, config in configs.items():
            folder = f'{base}.{label}'
            write_config(folder, config)
            for f in files:
                if not os.path.exists(f'{folder}/{f}'):
                    os.link(f'{base}/{f}', f'{folder}/{f}')
            self.jobs.append(self.pool.submit(self.one, f'{name}.{label}', folder, want, tokens))

    def refused(self, name, config, weights, *words):
        """Must end with an error that has all the words."""
        folder = f'{self.folder}/{name}'
        write_checkpoint(folder, weights.file)
        write_config(folder, config)

        def job():
            p = self.logits(folder, TOKENS)
            missing = [w for w in words if w not in p.stderr]
            if p.returncode in (0, 139, 134) or missing:
                return f'{name}: exit code {p.returncode}, expected an error with {words}: {p.stderr.strip()}'
            return None
        self.jobs.append(self.pool.submit(job))

    def done(self):
        bad = [r for r in (j.result() for j in self.jobs) if r]
        for text in bad:
            print('FAIL:', text, file=sys.stderr)
        print(f'{len(self.jobs)} checkpoints compared, {len(bad)} failures')
        return bool(bad) or not self.jobs


class Cases:
    """Models to check: add() collects, run() evaluates those whose names begin as asked."""

    def __init__(self):
        self.all = []

    def add(self, model_type, cls, defaults, given, forward, suffix='', extra=None, shards=1, v5=None, wrap=None, rename=None):
        """forward(weights, config) gives logits; extra(weights) adds tensors that are of no use;
        wrap(config) is what stands in the file instead, rename(name) what a tensor is called.
        v5: also as version 5 of the library saves it; if not said the first of a model_type."""
        if v5 is None:
            v5 = all(model_type != c[1] for c in self.all)
        self.all.append((model_type + suffix, model_type, cls, defaults, given, forward, extra, shards, v5, wrap, rename))

    def run(self, argv):
        runner = Runner(argv[1], argv[2])
        for name, model_type, cls, defaults, given, forward, extra, shards, v5, wrap, rename in self.all:
            if argv[3:] and not any(name.startswith(a) for a in argv[3:]):
                continue
            W = Weights(name)
            y = forward(W, {**defaults, **given})
            if rename:
                W.file = {rename(k): v for k, v in W.file.items()}
            if extra:
                extra(W)
            configs = variants(model_type, cls, defaults, given, v5)
            if wrap:
                configs = {k: wrap(c) for k, c in configs.items()}
            runner.check(name, configs, W, y, shards=shards)
        return runner.done()


# ---------------------------------------------------------------- config.json
# What files of PretrainedConfig commonly have besides.
COMMON = {'_name_or_path': '', 'bos_token_id': 1, 'eos_token_id': 2, 'pad_token_id': None, 'use_cache': True,
          'initializer_range': 0.02, 'attention_dropout': 0.0, 'torch_dtype': 'float32', 'transformers_version': '4.51.0'}


def modern(config):
    """As version 5 of the library saves it: rotation in one object, dtype."""
    c = {k: v for k, v in config.items() if k not in ('rope_theta', 'rope_scaling', 'partial_rotary_factor', 'torch_dtype')}
    scaling = dict(config.get('rope_scaling') or {})
    kind = scaling.pop('type', None)
    scaling.setdefault('rope_type', kind or 'default')
    c['rope_parameters'] = {**scaling, 'rope_theta': config['rope_theta']}
    if config.get('partial_rotary_factor') is not None:
        c['rope_parameters']['partial_rotary_factor'] = config['partial_rotary_factor']
    c['dtype'] = 'float32'
    return c


def variants(model_type, cls, defaults, given, v5=True):
    """The same model as save_pretrained of two versions writes it, and with what the class
    has by default left out.  A tied head is True in the base class of the older version,
    which leaves it out where the class has it, too."""
    head = {'architectures': [cls], 'model_type': model_type} if cls else {'model_type': model_type}
    full = {**COMMON, **defaults, **given}
    saved = dict(full)
    if saved.get('tie_word_embeddings') is True and defaults.get('tie_word_embeddings') is True:
        del saved['tie_word_embeddings']
    out = {'saved': {**head, **saved},
           'sparse': {**head, **{k: v for k, v in given.items() if k not in defaults or defaults[k] != v}}}
    if v5 and 'rope_theta' in full:
        out['v5'] = {**head, **modern(full)}
    return out


# ---------------------------------------------------------------- arithmetic
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    """By its Taylor terms, which are exact enough for |x| < 6."""
    x = np.clip(x, -6, 6)
    out, term = np.zeros_like(x), x.copy()
    for n in range(200):
        out += term / (2 * n + 1)
        term = term * (-x * x / (n + 1))
    return np.where(np.abs(x) > 4.5, np.sign(x), out * 2 / np.sqrt(np.pi))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


ACT = {'silu': lambda x: x * sigmoid(x), 'swish': lambda x: x * sigmoid(x),
       'gelu': lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
       'gelu_new': gelu_tanh, 'gelu_pytorch_tanh': gelu_tanh, 'gelu_fast': gelu_tanh,
       'quick_gelu': lambda x: x * sigmoid(1.702 * x),
       'relu': lambda x: np.maximum(x, 0), 'relu2': lambda x: np.maximum(x, 0)**2, 'sigmoid': sigmoid}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def centred(x, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def frequencies(dims, theta, scaling=None, context=0, length=len(TOKENS)):
    """Angles per position, and the factor on cosines and sines: modeling_rope_utils.py."""
    s, f = scaling or {}, theta**(-np.arange(0, dims, 2) / dims)
    kind, factor = s.get('rope_type', s.get('type', 'default')), s.get('factor', 1.0)
    orig = s.get('original_max_position_embeddings', context)
    if kind == 'linear':
        return f / factor, 1.0
    if kind == 'dynamic':
        base = theta * (factor * max(length, context) / context - (factor - 1))**(dims / (dims - 2))
        return base**(-np.arange(0, dims, 2) / dims), 1.0
    if kind == 'llama3':
        low, high = s['low_freq_factor'], s['high_freq_factor']
        wave = 2 * np.pi / f
        smooth = np.clip((orig / wave - low) / (high - low), 0, 1)
        return (1 - smooth) * f / factor + smooth * f, 1.0
    if kind == 'yarn':
        return yarn(f, dims, theta, s, factor, orig)
    if kind == 'longrope':
        factor = s.get('factor') or context / orig
        size = np.sqrt(1 + np.log(factor) / np.log(orig)) if factor > 1 else 1.0
        return f / np.array(s['long_factor' if length > orig else 'short_factor']), s.get('attention_factor') or size
    return f, 1.0


def yarn(f, dims, theta, s, factor, orig):
    def dim(turns):
        return dims * np.log(orig / (turns * 2 * np.pi)) / (2 * np.log(theta))
    low, high = dim(s.get('beta_fast') or 32), dim(s.get('beta_slow') or 1)
    if s.get('truncate', True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / (high - low if high != low else 0.001), 0, 1)

    def size(m):
        return 0.1 * m * np.log(factor) + 1 if factor > 1 else 1.0
    m, every = s.get('mscale'), s.get('mscale_all_dim')
    scale = s.get('attention_factor')
    if scale is None:
        scale = size(m) / size(every) if m and every else size(1)
    return f / factor * ramp + f * (1 - ramp), scale


def rotate(x, freqs, size=1.0, adjacent=False, first=0):
    """x [T, heads, d]: the first 2 * len(freqs) components rotate."""
    n = 2 * len(freqs)
    a = (first + np.arange(len(x)))[:, None, None] * freqs
    c, s = np.cos(a) * size, np.sin(a) * size
    i, j = (slice(0, n, 2), slice(1, n, 2)) if adjacent else (slice(0, n // 2), slice(n // 2, n))
    y = x.copy()
    y[..., i], y[..., j] = x[..., i] * c - x[..., j] * s, x[..., j] * c + x[..., i] * s
    return y


def causal(T, window=0, chunk=0):
    """[T, T] 0 or -inf; a window of n sees the token itself and n - 1 before."""
    t, s = np.arange(T)[:, None], np.arange(T)[None]
    seen = s <= t
    if window:
        seen = seen & (t - s < window)
    if chunk:
        seen = seen & (t // chunk == s // chunk)
    return np.where(seen, 0.0, -np.inf)


def slopes(heads):
    """ALiBi's, arXiv:2108.12409"""
    n = 2**int(np.floor(np.log2(heads)))
    return np.array([2.0**(-8 * (h + 1) / n) if h < n else 2.0**(-4 * (2 * (h - n) + 1) / n) for h in range(heads)])


def alibi(T, heads):
    return slopes(heads)[:, None, None] * (np.arange(T)[None] - np.arange(T)[:, None])


def attend(q, k, v, scale=None, mask=None, cap=0, sinks=None):
    """q [T, heads, d], k, v [T, kv heads, ..] -> [T, heads * dv]; mask is added to scores."""
    T, heads = q.shape[:2]
    k, v = (x.repeat(heads // x.shape[1], 1) for x in (k, v))
    s = np.einsum('thd,shd->hts', q, k) * (q.shape[-1]**-0.5 if scale is None else scale)
    if cap:
        s = cap * np.tanh(s / cap)
    s = s + (causal(T) if mask is None else mask)
    if sinks is not None:
        s = np.concatenate([s, sinks[:, None, None].repeat(T, 1)], -1)
    return np.einsum('hts,shd->thd', softmax(s)[..., :T], v).reshape(T, -1)


def heads(x, d):
    return x.reshape(len(x), -1, d)
