# SPDX-License-Identifier: GPL-3.0-or-later
# tokenizer.json beside a model, and vocabularies of GGUF files: the ids of the program
# against those of naive encoders here.  Usage: tokens.py NMBENCH FOLDER
import json
import re
import subprocess
import sys
import unicodedata

import numpy as np

import stored
from tiny_gguf import write

nmbench, folder = sys.argv[1:3]
SIZE = 420
CORPUS = ("Once upon a time there was a little girl who liked to play in the park with her dog. It's the 2nd of 1999; "
          "they'll say \"hello, world!\"  The naïve café wasn't open.\n\nShe said: don't run, don't fall. one two three 12345") * 3
TEXTS = ['Once upon a time', 'cafe\u0301 a\u0308 \ufb01n<|user|>e\u0301', "don't  stop at 1999,\n the café!", '  two spaces', 'a<|end|>b<|user|> c', 'naïve 東京 x', 'x']
WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"
WORD3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
JSON3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTE = {}
for b in range(256):
    self = 33 <= b <= 126 or 161 <= b <= 172 or b >= 174
    BYTE[b] = chr(b) if self else chr(256 + len([c for c in BYTE.values() if ord(c) > 255]))
PRINTED = {c: b for b, c in BYTE.items()}


def train(words, n):
    """Merges by count."""
    words, merges = [list(w) for w in words], []
    while len(merges) < n:
        count = {}
        for w in words:
            for p in zip(w, w[1:]):
                count[p] = count.get(p, 0) + 1
        if not count:
            break
        best = max(count, key=lambda p: (count[p], p))
        merges.append(best)
        words = [merge(w, best) for w in words]
    return merges


def merge(w, pair):
    out, i = [], 0
    while i < len(w):
        if tuple(w[i:i + 2]) == pair:
            out.append(w[i] + w[i + 1])
            i += 2
        else:
            out.append(w[i])
            i += 1
    return out


def bpe(w, merges):
    rank, w = {m: i for i, m in enumerate(merges)}, list(w)
    while len(w) > 1:
        r, i = min((rank.get(p, 1 << 30), i) for i, p in enumerate(zip(w, w[1:])))
        if r == 1 << 30:
            break
        w[i:i + 2] = [w[i] + w[i + 1]]
    return w


ADDED = [{'id': 400, 'content': '<|begin|>', 'special': True}, {'id': 401, 'content': '<|end|>', 'special': True},
         {'id': 402, 'content': '<|user|>', 'special': False}, {'id': 403, 'content': '<|endless|>', 'special': True}]


def parts(text):
    return [p for p in re.split(r'(<\|begin\|>|<\|end\|>|<\|user\|>|<\|endless\|>)', text) if p]


def encode(text, piece):
    special = {a['content']: a['id'] for a in ADDED}
    out = []
    for i, p in enumerate(parts(text)):
        out += [special[p]] if p in special else piece(p, i == 0)
    return out


def cuts(text, exprs):
    """Each expression cuts what those before it left."""
    parts = [text]
    for e in [exprs] if isinstance(exprs, str) else exprs:
        out = []
        for p in parts:
            at = 0
            for m in re.finditer(e, p):
                out += [p[at:m.start()], m.group()]
                at = m.end()
            out.append(p[at:])
        parts = [p for p in out if p]
    return parts


def byte_words(text, word):
    return [''.join(BYTE[b] for b in w.encode()) for w in cuts(text, word)]


def byte_level(word, pre, whole, begin, form=None):
    merges = train(byte_words(CORPUS, word), 120)
    vocab = {c: i for i, c in enumerate(BYTE.values())}
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    if whole:  # a token that no merge makes
        vocab['Once'] = len(vocab)

    def piece(p, first):
        p = unicodedata.normalize(form, p) if form else p
        return [vocab[t] for w in byte_words(p, word) for t in ([w] if whole and w in vocab else bpe(w, merges))]
    file = {'normalizer': form and {'type': form}, 'pre_tokenizer': pre, 'added_tokens': ADDED,
            'model': {'type': 'BPE', 'vocab': vocab, 'merges': [f'{a} {b}' for a, b in merges] if begin else merges,
                      'ignore_merges': whole}}
    if begin:
        file['post_processor'] = {'type': 'Sequence', 'processors': [
            {'type': 'ByteLevel'}, {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<|begin|>', 'type_id': 0}},
                                                                              {'Sequence': {'id': 'A', 'type_id': 0}}]}]}
    return file, lambda t: ([400] if begin else []) + encode(t, piece)


def characters():
    text = '▁' + CORPUS.replace(' ', '▁')
    merges = [m for m in train([text], 90) if '▁' not in (m[0] + m[1])[1:]]
    vocab = {'<unk>': 0, **{f'<0x{b:02X}>': b + 1 for b in range(256)}}
    for c in sorted(set(text)):
        vocab.setdefault(c, len(vocab))
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))

    def piece(p, first):
        p = ('▁' if first else '') + p.replace(' ', '▁')
        return [i for t in bpe(p, merges) for i in ([vocab[t]] if t in vocab else [b + 1 for b in t.encode()])]
    return {'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '▁'},
                                                               {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}]},
            'pre_tokenizer': None, 'added_tokens': ADDED,
            'model': {'type': 'BPE', 'unk_token': '<unk>', 'byte_fallback': True, 'vocab': vocab,
                      'merges': [f'{a} {b}' for a, b in merges]}}, lambda t: encode(t, piece)


def unigram():
    words = sorted({'▁' + w for w in CORPUS.split()} | set('▁' + CORPUS.replace(' ', '▁')))
    vocab = [['<unk>', 0.0]] + [[f'<0x{b:02X}>', -20.0] for b in range(256)] + [[w, -(5 + 3 / len(w) + i * 1e-3)] for i, w in enumerate(words)]
    score = {w: s for w, s in vocab[257:]}
    ids = {w: i for i, (w, _) in enumerate(vocab)}

    def piece(p, first):
        p = unicodedata.normalize('NFKC', p)
        p = ('▁' if first else '') + p.replace(' ', '▁')
        best = [(0.0, [])] + [None] * len(p)
        for i in range(len(p)):
            for j in range(i + 1, len(p) + 1):
                t = p[i:j]
                if t in score or j == i + 1:
                    s = best[i][0] + score.get(t, -1000.0)
                    if best[j] is None or s > best[j][0]:
                        best[j] = (s, best[i][1] + ([ids[t]] if t in score else [b + 1 for b in t.encode()]))
        return best[-1][1]
    assert len(vocab) <= 400
    return {'normalizer': {'type': 'NFKC'}, 'pre_tokenizer': {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'},
            'added_tokens': ADDED, 'model': {'type': 'Unigram', 'unk_id': 0, 'vocab': vocab, 'byte_fallback': True}}, lambda t: encode(t, piece)


SPLIT3 = {'type': 'Sequence', 'pretokenizers': [{'type': 'Split', 'pattern': {'Regex': JSON3}, 'behavior': 'Isolated', 'invert': False},
                                                {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': False}]}
KINDS = {'gpt2': lambda: byte_level(WORD, {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': True}, False, False),
         'llama3': lambda: byte_level(WORD3, SPLIT3, True, True), 'nfc': lambda: byte_level(WORD3, SPLIT3, True, False, 'NFC'),
         'nfkd': lambda: byte_level(WORD3, SPLIT3, False, False, 'NFKD'), 'llama2': characters, 'unigram': unigram}



# ------------------------------------------------------------------- GGUF files
DIGIT, PUNCT = r'\d', r"""[!"#%&'()*,\-./:;?@\[\\\]_{}$+<=>^~|]+"""


def gguf_bytes(pre, exprs, whole=False, **more):
    file, _ = byte_level(exprs, None, whole, False)
    vocab, merges = file['model']['vocab'], [m if isinstance(m, str) else ' '.join(m) for m in file['model']['merges']]
    texts = {i: t for t, i in vocab.items()}
    tokens = [texts.get(i, f'<unused{i}>') for i in range(400)] + [a['content'] for a in ADDED]
    keys = {'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': pre, 'tokenizer.ggml.tokens': tokens, 'tokenizer.ggml.merges': merges,
            'tokenizer.ggml.token_type': [1] * 400 + [3 if a['special'] else 4 for a in ADDED],
            'tokenizer.ggml.bos_token_id': 400, 'tokenizer.ggml.eos_token_id': 401, **more}
    ranks = [tuple(m.split(' ')) for m in merges]
    begin = [400] if more.get('tokenizer.ggml.add_bos_token', pre == 'llama-bpe') else []
    end = [401] if more.get('tokenizer.ggml.add_eos_token') else []

    def piece(p, first):
        return [vocab[t] for w in byte_words(p, exprs) for t in ([w] if whole and w in vocab else bpe(w, ranks))]
    return keys, lambda t: begin + encode(t, piece) + end


def gguf_greedy():
    """RWKV's vocabulary: the longest token at each place."""
    more = ['Once', ' up', ' upon', 'on ', "don't", '\n\t', '\\', ' 19', '東京', '"', ' the', ' café']
    values = [b'<s>'] + [bytes([b]) for b in range(256)] + [m.encode() for m in more]
    names = {b'\\': b'\\\\', b'\n': b'\\n', b'\t': b'\\t', b'\r': b'\\r'}
    texts = [b'\\x%02x' % v[0] if len(v) == 1 and not 32 <= v[0] < 127 and v not in names else
             b''.join(names.get(v[i:i + 1], v[i:i + 1]) for i in range(len(v))) for v in values]

    def encoded(text):
        b, out = text.encode(), []
        while b:
            n = max(len(v) for v in values[1:] if b.startswith(v))
            out.append(max(i for i, v in enumerate(values) if v == b[:n]))
            b = b[n:]
        return out
    return {'tokenizer.ggml.model': 'rwkv', 'tokenizer.ggml.tokens': texts, 'tokenizer.ggml.token_type': [1] * len(texts)}, encoded


GGUF = {'qwen2': lambda: gguf_bytes('qwen2', WORD3.replace('{1,3}', ''), **{'tokenizer.ggml.add_eos_token': True}),
        'llama-bpe': lambda: gguf_bytes('llama-bpe', WORD3, True), 'dbrx': lambda: gguf_bytes('dbrx', WORD3),
        'starcoder': lambda: gguf_bytes('starcoder', [DIGIT, WORD], **{'tokenizer.ggml.add_bos_token': True}),
        'default': lambda: gguf_bytes('default', [PUNCT, WORD, r'\d+', '[0-9][0-9][0-9]']),
        'exaone4': lambda: gguf_bytes('exaone4', WORD), 'rwkv': gguf_greedy}


def llama(path, keys):
    r = np.random.default_rng(1)
    t = {'token_embd.weight': (SIZE, 8), 'output_norm.weight': (8,), 'blk.0.attn_norm.weight': (8,), 'blk.0.ffn_norm.weight': (8,)}
    t.update({f'blk.0.{n}.weight': (8, 8) for n in ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down')})
    sizes = {'context_length': 256, 'embedding_length': 8, 'block_count': 1, 'feed_forward_length': 8, 'attention.head_count': 1,
             'rope.dimension_count': 8, 'attention.layer_norm_rms_epsilon': 1e-5}
    write(path, {'general.architecture': 'llama', **{'llama.' + k: v for k, v in sizes.items()}, **keys},
          {n: r.standard_normal(s).astype(np.float32) for n, s in t.items()})


# -------------------------------------------------------------------------- whole
def compare(kind, model, tokens, texts):
    bad = 0
    for text in texts:
        p = subprocess.run([nmbench, 'generate', model, '-p', text, '-n', '1', '--json'], capture_output=True, text=True)
        got = json.loads(p.stdout)['prompt_tokens'] if not p.returncode else p.stderr.strip()
        if got != tokens(text):
            print(f'FAIL {kind} {text!r}: {got}, expected {tokens(text)}')
            bad += 1
    return bad


stored.V = stored.CONFIG['vocab_size'] = SIZE
stored.hf(folder, stored.plain, None)
bad = 0
for kind, make in KINDS.items():
    file, tokens = make()
    with open(folder + '/tokenizer.json', 'w') as f:
        json.dump(file, f)
    bad += compare(kind, folder, tokens, TEXTS)
for kind, make in GGUF.items():
    keys, tokens = make()
    llama(f'{folder}/{kind}.gguf', keys)
    bad += compare('GGUF ' + kind, f'{folder}/{kind}.gguf', tokens, [TEXTS[i] for i in (1, 2, 4)])
print(f'{len(KINDS) + len(GGUF)} kinds of vocabularies, {bad} failures')
sys.exit(bad != 0)
