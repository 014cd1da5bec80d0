# SPDX-License-Identifier: GPL-3.0-or-later
# Models in weight files against recorded numbers: logits (atol 1e-4 + rtol 1e-4 in fp32),
# greedy tokens, tokenisation, perplexity.  Usage: weights.py NMBENCH SHARED
import csv
import glob
import json
import os
import struct
import subprocess
import sys

nmbench, shared = sys.argv[1:]
bad = 0


def fail(text):
    global bad
    bad += 1
    if bad < 40:
        print('FAIL:', text)


def run(*args):
    p = subprocess.run([nmbench, *args], capture_output=True, text=True)
    if p.returncode:
        fail(f'{args}: exit code {p.returncode}: {p.stderr.strip()}')
        return None
    return json.loads(p.stdout)


def words(ids):
    return ','.join(map(str, ids))


def close(what, got, want, tol=1e-4):
    worst = max(abs(g - w) - tol * abs(w) for g, w in zip(got, want))
    if worst > tol or len(got) != len(want):
        fail(f'{what}: off by {worst:.3g} beyond the relative part')
    return worst


def logits_check(path, model, variant):
    """The rows of the table for one variant: all positions that it has."""
    rows = {}
    with open(f'{shared}/reference/{model}-logits.csv') as f:
        for r in csv.DictReader(f):
            if r['variant'] == variant:
                rows.setdefault((r['prompt'], int(r['position'])), []).append(
                    (int(r['token']), float(r['logit_exact'])))
    out = {}
    for (prompt, position), want in sorted(rows.items()):
        if prompt not in out:
            out[prompt] = run('logits', path, '--tokens', words(prompts[prompt]['tokens']), '--json')
        if out[prompt]:
            got = out[prompt]['logits'][position]
            close(f'{path} {prompt} position {position}', [got[t] for t, _ in want],
                  [w for _, w in want])
    return len(rows)


def greedy_check(path, variant):
    for prompt, g in variant['greedy'].items():
        o = run('generate', path, '--tokens', words(prompts[prompt]['tokens']), '-n',
                str(len(g['exact'])), '--ignore-eos', '--json')
        if o and o['tokens'] != g['exact']:
            first = next(i for i, (a, b) in enumerate(zip(o['tokens'], g['exact'])) if a != b)
            if g['exact_margin'][first] > 2e-4:
                fail(f'{path} {prompt}: token {first} is {o["tokens"][first]}, '
                     f'expected {g["exact"][first]} (margin {g["exact_margin"][first]})')


def perplexity_check(path, model, variant):
    for name, p in variant['ppl'].items():
        o = run('perplexity', path, '--tokens', words(reference['ppl_texts'][name]['tokens']), '--json')
        if o:
            close(f'{path} perplexity', [o['perplexity']], [p['exact_ppl']])


def text_check(path):
    for p in prompts.values():
        o = run('generate', path, '-p', p['text'], '-n', '1', '--json')
        if o and o['prompt_tokens'] != p['tokens']:
            fail(f'{path}: {p["text"]!r} gives {o["prompt_tokens"]}, expected {p["tokens"]}')


checked = 0
for model in sys.stdin.read().split():
    reference = json.load(open(f'{shared}/reference/{model}.json'))
    prompts = {p['id']: p for p in reference['prompts']}
    folder = f'{shared}/weights/{model}'
    for name, variant in reference['variants'].items():
        path = f'{folder}/{model}-{name}.gguf'
        if os.path.exists(path):
            checked += logits_check(path, model, name)
            greedy_check(path, variant)
            perplexity_check(path, model, variant)
            text_check(path)
    if model == 'llama256':
        p = json.load(open(f'{shared}/reference/llama256-hf-bf16.json'))['prompts'][0]
        o = run('logits', f'{folder}/hf', '--tokens', words(p['tokens']), '--json')
        if o:
            close('llama256 BF16', o['logits'][p['position']], p['logits_exact'])
    else:
        checked += logits_check(f'{folder}/hf', model, 'F32')
    if model == 'stories260K':
        checked += logits_check(f'{folder}/stories260K.bin', model, 'F32')
        text_check(f'{folder}/stories260K.bin')
for path in sorted(glob.glob(f'{shared}/weights/rwkv/*.bin')):
    name = os.path.basename(path).removesuffix('-FP32.bin')
    if name.startswith('expected'):
        continue
    for p in json.load(open(f'{shared}/reference/{name}.json'))['prompts']:
        o = run('logits', path, '--tokens', words(p['tokens']), '--json')
        for i, want in enumerate(p['logits_each_position'] if o else []):
            close(f'{name} position {i}', o['logits'][i], want)
            checked += 1
        with open(f'{shared}/weights/rwkv/expected-logits-{name[10:]}.bin', 'rb') as f:
            if o and p['prompt'] == '"in':
                close(f'{name} published', o['logits'][-1], struct.unpack('<256f', f.read()))
        o = run('generate', path, '-p', p['prompt'], '-n', str(len(p['greedy'])), '--json')
        if o and (o['tokens'] != p['greedy'] or o['prompt_tokens'] != p['tokens']):
            fail(f'{name} generates {o["tokens"]}, expected {p["greedy"]}')
print(f'{checked} rows of logits compared, {bad} failures')
sys.exit(bad != 0 or checked == 0)
