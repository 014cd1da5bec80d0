# SPDX-License-Identifier: GPL-3.0-or-later
# Small models in every stored quantisation of safetensors files (dense, fused projections,
# experts) and in the forms of llama2.c: the logits of the program against those of
# tiny_gguf.py with weights that are decoded by stored_layouts.py, and the bytes that it counts
# against the files'.  Usage: stored.py NMBENCH FOLDER [all | FORM..]
import json
import os
import struct
import subprocess
import sys

import numpy as np

from stored_layouts import (FP4, R, T, aqlm, awq, bitnet, codes, dense, fp8, gemv, gptq, hqq, int8_rows, int_rows, mxfp4, mxfp8,
                            nf4, nvfp4, online, packed, plain, save, torchao)
from tiny_gguf import Model

TOKENS = [3, 17, 42, 9, 60, 3, 25, 11]
H, V, FF, HEADS, KV, L = 256, 64, 384, 4, 2, 2

# --------------------------------------------------------------------- the model
E, EFF = 4, 128
ATTN = {'attn_q': ('self_attn.q_proj', H, H), 'attn_k': ('self_attn.k_proj', H * KV // HEADS, H),
        'attn_v': ('self_attn.v_proj', H * KV // HEADS, H), 'attn_output': ('self_attn.o_proj', H, H)}
LINEAR = {**ATTN, 'ffn_gate': ('mlp.gate_proj', FF, H), 'ffn_up': ('mlp.up_proj', FF, H), 'ffn_down': ('mlp.down_proj', H, FF)}
FUSED = {'attn_qkv': ('self_attn.qkv_proj', H + 2 * H * KV // HEADS, H), 'attn_output': ATTN['attn_output'],
         'ffn_up': ('mlp.gate_up_proj', 2 * FF, H), 'ffn_down': LINEAR['ffn_down']}
EXPERT = {'ffn_gate_exps': ('w1', EFF, H), 'ffn_up_exps': ('w3', EFF, H), 'ffn_down_exps': ('w2', H, EFF)}
NORM = {'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_norm'.replace('_norm', '_layernorm')}
CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': H, 'intermediate_size': FF,
          'num_hidden_layers': L, 'num_attention_heads': HEADS, 'num_key_value_heads': KV, 'vocab_size': V, 'rms_norm_eps': 1e-5,
          'max_position_embeddings': 64, 'hidden_act': 'silu', 'torch_dtype': 'float16', 'tie_word_embeddings': False,
          'rope_theta': 10000.0}
MIXTRAL = {'model_type': 'mixtral', 'architectures': ['MixtralForCausalLM'], 'intermediate_size': EFF, 'num_local_experts': E,
           'num_experts_per_tok': 2, 'sliding_window': None}
OPTIONS = dict(eps=1e-5, layers=L, heads=HEADS, kv=KV, dk=H // HEADS)


def model(form, ends=dense, kind='llama', tied=False, keep=lambda name: False):
    """Tensors of the file, and values by GGUF's names.  keep: modules that stay as they are."""
    real = np.float32 if ends is plain else np.float16

    def vector(n):
        return (1 + 0.2 * R.standard_normal(n)).astype(real)

    def linear(name, n, k):
        more, w = (ends if keep(name) else form)(name, n, k)
        out.update(more)
        return w
    out, t = {}, {}
    for name, hf in (('token_embd', 'model.embed_tokens'), ('output', 'lm_head')):
        if tied and name == 'output':
            t['output.weight'] = t['token_embd.weight']
            break
        more, t[name + '.weight'] = ends(hf, V, H)
        out.update(more)
    t['output_norm.weight'] = vector(H)
    out['model.norm.weight'] = T(t['output_norm.weight'])
    for i in range(L):
        at = f'model.layers.{i}.'
        for name, hf in NORM.items():
            v = t[f'blk.{i}.{name}.weight'] = vector(H)
            out[f'{at}{hf}.weight'] = T(v)
        for name, (hf, n, k) in {'llama': LINEAR, 'phi3': FUSED, 'mixtral': ATTN}[kind].items():
            t[f'blk.{i}.{name}.weight'] = linear(at + hf, n, k)
        if kind == 'mixtral':
            more, t[f'blk.{i}.ffn_gate_inp.weight'] = ends(at + 'block_sparse_moe.gate', E, H)
            out.update(more)
            for name, (hf, n, k) in EXPERT.items():
                t[f'blk.{i}.{name}.weight'] = np.array([linear(f'{at}block_sparse_moe.experts.{e}.{hf}', n, k) for e in range(E)])
    return out, t


def hf(folder, form, quantization, shards=1, **how):
    out, t = model(form, **how)
    kind = how.get('kind', 'llama')
    config = dict(CONFIG, tie_word_embeddings=how.get('tied', False), **({} if how.get('ends') is not plain else
                                                                         {'torch_dtype': 'float32'}))
    if kind == 'mixtral':
        config.update(MIXTRAL)
    if kind == 'phi3':
        config.update(model_type='phi3', architectures=['Phi3ForCausalLM'], original_max_position_embeddings=64,
                      rope_scaling=None, sliding_window=None)
    if quantization:
        config['quantization_config'] = quantization
    with open(folder + '/config.json', 'w') as f:
        json.dump(config, f)
    if shards == 1:
        save(folder + '/model.safetensors', out)
        return folder, t, {}
    where = {}
    for s in range(shards):
        part = {n: v for j, (n, v) in enumerate(out.items()) if j % shards == s}
        file = f'model-{s + 1:05}-of-{shards:05}.safetensors'
        where.update({n: file for n in part})
        save(f'{folder}/{file}', part)
    with open(folder + '/model.safetensors.index.json', 'w') as f:
        json.dump({'metadata': {'total_size': 1}, 'weight_map': where}, f)
    return folder, t, {}


def bitnet_model(folder, form, q):
    out, t = model(form)
    for i in range(L):
        for name, hfname, n in (('attn_sub_norm', 'self_attn.attn_sub_norm', H), ('ffn_sub_norm', 'mlp.ffn_sub_norm', FF)):
            v = t[f'blk.{i}.{name}.weight'] = (1 + 0.2 * R.standard_normal(n)).astype(np.float16)
            out[f'model.layers.{i}.{hfname}.weight'] = T(v)
    with open(folder + '/config.json', 'w') as f:
        json.dump(dict(CONFIG, model_type='bitnet', architectures=['BitNetForCausalLM'], hidden_act='relu2',
                       quantization_config=q), f)
    save(folder + '/model.safetensors', out)
    return folder, t, dict(act='relu2')


def gpt_oss(folder):
    """Experts as gpt-oss stores them: blocks of MXFP4, gate and up taking turns."""
    ff, dk = 64, 32
    out, t = {}, {}

    def put(name, hfname, a):
        t[name] = a
        out[hfname] = T(a)

    def rand(*shape, by=None, at=0):
        return (at + R.standard_normal(shape) * (by or shape[-1]**-0.5)).astype(np.float16)

    def mx(n, k):
        q, s = codes(E * n, k, 4).reshape(E, n, k), R.integers(120, 124, (E, n, k // 32)).astype(np.uint8)
        b = (q[..., 0::2] | q[..., 1::2] << 4).astype(np.uint8).reshape(E, n, k // 32, 16)
        return T(b), T(s), FP4[q] * np.repeat(2.0**(s.astype(int) - 127), 32, 2)

    put('token_embd.weight', 'model.embed_tokens.weight', rand(V, H, by=1))
    put('output.weight', 'lm_head.weight', rand(V, H))
    put('output_norm.weight', 'model.norm.weight', rand(H, by=0.2, at=1))
    for i in range(L):
        b, m = f'blk.{i}.', f'model.layers.{i}.'
        put(b + 'attn_norm.weight', m + 'input_layernorm.weight', rand(H, by=0.2, at=1))
        put(b + 'post_attention_norm.weight', m + 'post_attention_layernorm.weight', rand(H, by=0.2, at=1))
        for c, n in (('q', HEADS * dk), ('k', KV * dk), ('v', KV * dk)):
            put(f'{b}attn_{c}.weight', f'{m}self_attn.{c}_proj.weight', rand(n, H))
            put(f'{b}attn_{c}.bias', f'{m}self_attn.{c}_proj.bias', rand(n, by=0.3))
        put(b + 'attn_output.weight', m + 'self_attn.o_proj.weight', rand(H, HEADS * dk))
        put(b + 'attn_output.bias', m + 'self_attn.o_proj.bias', rand(H, by=0.3))
        put(b + 'attn_sinks.weight', m + 'self_attn.sinks', rand(HEADS, by=1))
        put(b + 'ffn_gate_inp.weight', m + 'mlp.router.weight', rand(E, H))
        put(b + 'ffn_gate_inp.bias', m + 'mlp.router.bias', rand(E, by=0.3))
        out[m + 'mlp.experts.gate_up_proj_blocks'], out[m + 'mlp.experts.gate_up_proj_scales'], w = mx(2 * ff, H)
        t[b + 'ffn_gate_exps.weight'], t[b + 'ffn_up_exps.weight'] = w[:, 0::2], w[:, 1::2]
        w = rand(E, 2 * ff, by=0.3)
        out[m + 'mlp.experts.gate_up_proj_bias'] = T(w)
        t[b + 'ffn_gate_exps.bias'], t[b + 'ffn_up_exps.bias'] = w[:, 0::2], w[:, 1::2]
        out[m + 'mlp.experts.down_proj_blocks'], out[m + 'mlp.experts.down_proj_scales'], w = mx(H, ff)
        t[b + 'ffn_down_exps.weight'] = w
        put(b + 'ffn_down_exps.bias', m + 'mlp.experts.down_proj_bias', rand(E, H, by=0.3))
    config = {'architectures': ['GptOssForCausalLM'], 'model_type': 'gpt_oss', 'hidden_size': H, 'intermediate_size': ff,
              'num_hidden_layers': L, 'num_attention_heads': HEADS, 'num_key_value_heads': KV, 'head_dim': dk, 'vocab_size': V,
              'num_local_experts': E, 'num_experts_per_tok': 2, 'torch_dtype': 'float16', 'experts_per_token': 2, 'rms_norm_eps': 1e-5, 'sliding_window': 4,
              'layer_types': ['sliding_attention', 'full_attention'], 'hidden_act': 'silu', 'swiglu_limit': 7.0, 'rope_theta': 150000,
              'attention_bias': True, 'tie_word_embeddings': False, 'max_position_embeddings': 4096,
              'rope_scaling': {'rope_type': 'yarn', 'factor': 32.0, 'original_max_position_embeddings': 40, 'beta_fast': 32.0,
                               'beta_slow': 1.0, 'truncate': False},
              'quantization_config': {'quant_method': 'mxfp4', 'modules_to_not_convert': [
                  'model.layers.*.self_attn', 'model.layers.*.mlp.router', 'model.embed_tokens', 'lm_head']}}
    with open(folder + '/config.json', 'w') as f:
        json.dump(config, f)
    save(folder + '/model.safetensors', out)
    return folder, t, dict(dk=dk, act='oai', limit=7, score='chosen', window=4, is_window=lambda i: i == 0, theta=150000,
                           yarn=dict(factor=32, orig=40, truncate=False))


def stacked(folder, form, config):
    """Experts in one tensor each, gate over up: parts are named after the tensor."""
    out, t = model(dense, kind='mixtral')
    for i in range(L):
        at, b = f'model.layers.{i}.', f'blk.{i}.'
        for e in range(E):
            for w in ('w1', 'w2', 'w3'):
                del out[f'{at}block_sparse_moe.experts.{e}.{w}.weight']
        for name, n, k in (('gate_up_proj', 2 * EFF, H), ('down_proj', H, EFF)):
            each = [form('x', n, k) for _ in range(E)]
            for key in each[0][0]:
                if key == 'x.input_scale':
                    continue
                new = {'x.weight': '', 'x.weight_scale_inv': '_scale_inv'}.get(key, key.replace('x.', '_'))
                out[f'{at}mlp.experts.{name}{new}'] = T(np.array([m[key].a for m, _ in each]), each[0][0][key].dtype)
            w = np.array([v for _, v in each])
            if name == 'down_proj':
                t[b + 'ffn_down_exps.weight'] = w
            else:
                t[b + 'ffn_gate_exps.weight'], t[b + 'ffn_up_exps.weight'] = w[:, :EFF], w[:, EFF:]
    config = dict(CONFIG, **MIXTRAL, quantization_config=dict(config, modules_to_not_convert=['lm_head', 'self_attn']))
    with open(folder + '/config.json', 'w') as f:
        json.dump({**config, 'quantization_config': {k: v for k, v in config['quantization_config'].items() if k != 'ignore'}}, f)
    save(folder + '/model.safetensors', out)
    return folder, t, {}


def llama2c(folder, version, tied=False, group=64):
    """Adjacent pairs turn; in version 2 all matrices are int8 in groups."""
    out, t = model(plain, plain)
    seq, path = 64, folder + '/model.bin'
    if tied:
        t['output.weight'] = t['token_embd.weight']
    names = ['token_embd'] + [f'blk.{i}.{n}' for n in ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_down', 'ffn_up')
                              for i in range(L)] + ([] if tied else ['output'])
    f32 = {n: t[n + '.weight'].astype('<f4').tobytes() for n in names}
    norms = {n: b''.join(t[f'blk.{i}.{n}.weight'].tobytes() for i in range(L)) for n in ('attn_norm', 'ffn_norm')}
    last = t['output_norm.weight'].tobytes()
    sizes = struct.pack('<7i', H, FF, L, HEADS, KV, V if tied or version else -V, seq)
    with open(path, 'wb') as f:
        if not version:
            def each(n):
                return b''.join(f32[f'blk.{i}.{n}'] for i in range(L))
            f.write(sizes + f32['token_embd'] + norms['attn_norm'] + b''.join(each('attn_' + c) for c in 'qkv') +
                    each('attn_output') + norms['ffn_norm'] + each('ffn_gate') + each('ffn_down') + each('ffn_up') + last +
                    bytes(4 * seq * (H // HEADS)) + (b'' if tied else f32['output']))
        else:
            head = struct.pack('<Ii', 0x616b3432, version) + sizes + bytes([tied])
            if version == 2:
                head += struct.pack('<i', group)
            f.write(head + bytes(256 - len(head)) + norms['attn_norm'] + norms['ffn_norm'] + last)
            for n in names:
                if version == 1:
                    f.write(f32[n])
                    continue
                w = t[n + '.weight'].reshape(-1, group)
                s = (np.abs(w).max(1) / 127).astype(np.float32)
                q = np.round(w / s[:, None]).astype(np.int8)
                f.write(q.tobytes() + s.tobytes())
                t[n + '.weight'] = (q * s[:, None].astype(np.float64)).reshape(t[n + '.weight'].shape)
            if tied:
                t['output.weight'] = t['token_embd.weight']
    return path, t, dict(rope='adjacent')


def folder_of(form, **how):
    return lambda f: hf(f, *form, **how)


# Every layout of a matrix; each is tried in a dense model, and in the experts of one.
LAYOUTS = {
    **{f'gptq-{b}': gptq(b) for b in (2, 3, 4, 8)}, 'gptq-v2': gptq(4, v2=True), 'gptq-order': gptq(4, order=True),
    'gptq-group32': gptq(3, 32), 'gptq-row': gptq(4, -1), 'awq': awq(), 'awq-gemv': gemv(), 'awq-gemv64': gemv(64),
    'int8': int8_rows(), 'nf4': nf4(False), 'nf4-nested': nf4(True), 'bnb-fp4': nf4(False, True), 'nf4-128': nf4(True, size=128),
    'nf4-as-bf16': nf4(False, storage='BF16'), 'fp8-block': fp8(128, 128), 'fp8-block-64x32': fp8(64, 32),
    'fp8-row': fp8(1, 0, 'ct'), 'fp8-tensor': fp8(0, 0, 'ct'), 'fp8-block-ct': fp8(128, 64, 'ct'), 'fbgemm': fp8(1, 0, 'fbgemm'),
    'quark-fp8': fp8(0, 0, 'quark'), 'modelopt-fp8': fp8(0, 0, 'FP8'), 'modelopt-block': fp8(128, 128, 'FP8_PB_WO'),
    'modelopt-mxfp8': mxfp8(), 'packed-4': packed(4), 'packed-8': packed(8), 'packed-zero': packed(4, True),
    'packed-zero8': packed(8, True), 'packed-order': packed(4, True, order=True), 'packed-row': packed(4, group=0),
    'int-rows': int_rows(), 'int-zero': int_rows(True), 'nvfp4': nvfp4(True), 'nvfp4-awq': nvfp4(True, True),
    'nvfp4-packed': nvfp4(False), 'mxfp4-quark': mxfp4('quark'), 'mxfp4-packed': mxfp4('ct'),
    **{f'hqq-{b}': hqq(b) for b in (1, 2, 4, 8)}, 'hqq-down': hqq(4, axis=0), 'aqlm-1x16': aqlm(1, 10), 'aqlm-2x8': aqlm(2, 8),
    'aqlm-rows': aqlm(2, 6, 2, 4), 'torchao-int8': torchao('Int8WeightOnlyConfig'),
    'torchao-fp8': torchao('Float8WeightOnlyConfig'),
}


def kept(key, names, form):
    """Modules that the list of the checkpoint leaves as they are; names: its entries."""
    layout, config = form
    return layout, dict({k: v for k, v in config.items() if k not in ('ignore', 'exclude_modules')}, **{key: names})


def first(name):
    return '.layers.0.self_attn.' in name


FORMS = {
    'plain': folder_of((plain, None), ends=plain), 'half': folder_of((dense, None)),
    'shards': folder_of((plain, None), ends=plain, shards=3),
    **{name: folder_of(form) for name, form in LAYOUTS.items()},
    **{name + '-moe': folder_of(form, kind='mixtral') for name, form in LAYOUTS.items()},
    **{name + '-fused': folder_of(LAYOUTS[name], kind='phi3')
       for name in ('gptq-4', 'gptq-3', 'awq', 'nf4-nested', 'fp8-row', 'packed-zero', 'nvfp4', 'int8', 'fp8-block')},
    **{name + '-tied': folder_of(LAYOUTS[name], tied=True, shards=2) for name in ('gptq-4', 'fp8-block', 'nvfp4')},
    'gptq-kept': folder_of(kept('dynamic', {r'-:model\.layers\.0\.self_attn\..*': {}}, LAYOUTS['gptq-4']), keep=first),
    'awq-kept': folder_of(kept('modules_to_not_convert', ['lm_head', 'model.layers.0.self_attn'], LAYOUTS['awq']), keep=first),
    'nf4-kept': folder_of(kept('llm_int8_skip_modules', ['lm_head', 'k_proj'], LAYOUTS['nf4']),
                          keep=lambda name: name.endswith('k_proj')),
    'packed-kept': folder_of(kept('ignore', ['lm_head', r're:.*\.self_attn\.(q|k|v|o)_proj$'], LAYOUTS['packed-4']),
                             keep=lambda name: '.self_attn.' in name, kind='mixtral'),
    'modelopt-kept': folder_of(kept('ignore', ['lm_head', 'model.layers.0.self_attn*'], LAYOUTS['nvfp4']), keep=first),
    'fp8-block-stacked': lambda f: stacked(f, *LAYOUTS['fp8-block']), 'nvfp4-stacked': lambda f: stacked(f, *LAYOUTS['nvfp4']),
    'bitnet': lambda f: bitnet_model(f, *bitnet(False)), 'bitnet-multiply': lambda f: bitnet_model(f, *bitnet(True)),
    'bitnet-online': lambda f: bitnet_model(f, *online()), 'mxfp4': gpt_oss,
    'llama2c-0': lambda f: llama2c(f, 0), 'llama2c-0-tied': lambda f: llama2c(f, 0, True), 'llama2c-1': lambda f: llama2c(f, 1),
    'llama2c-1-tied': lambda f: llama2c(f, 1, True), 'llama2c-2': lambda f: llama2c(f, 2), 'llama2c-2-tied': lambda f: llama2c(f, 2, True),
}
# What tools write beside codes and scales: not counted as a weight.
ASIDE = ('.weight_shape', '.weight_format', '.input_scale', '.quant_map', 'bitsandbytes__nf4', 'bitsandbytes__fp4', '.pre_quant_scale',
         '.nested_quant_map', '.shape', '.nbits', '.group_size', '.axis')


def stored(path):
    """Bytes of all tensors in the files, and of what is set aside."""
    names = [path + '/' + n for n in os.listdir(path) if n.endswith('.safetensors')] if os.path.isdir(path) else []
    all_, aside = 0, 0
    for name in names:
        with open(name, 'rb') as f:
            head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        for key, v in head.items():
            n = v['data_offsets'][1] - v['data_offsets'][0]
            all_ += n
            aside += n if key.endswith(ASIDE) else 0
    return all_, aside


def bytes_agree(nmbench, paths):
    """`nmbench model`: the whole is what the file has, the parts add up to it."""
    bad = 0
    p = subprocess.run([nmbench, 'model', *paths, '--json'], capture_output=True, text=True)
    if p.returncode:
        print('FAIL model: ' + p.stderr.strip())
        return 1
    for path, m in zip(paths, json.loads(p.stdout)):
        whole, aside = stored(path)
        parts = sum(x['bytes'] for x in m['ends'])
        parts += sum(len(b['layers']) * x['bytes'] for b in m['blocks'] for x in b['tensors'])
        if 'nf4-128' in path or path.endswith(('-fused', '-stacked')):  # configurations do not say it
            parts = whole - aside
        if m['weights']['bytes'] != whole or parts != whole - aside:
            print(f"FAIL {path}: {m['weights']['bytes']} bytes and {parts} in parts, the file has {whole}, {aside} of them aside")
            bad += 1
    return bad


# Without "all": experts in a choice of layouts only.
SLOW = [n for n in FORMS if n.endswith('-moe') and n[:-4] not in (
    'gptq-4', 'gptq-order', 'awq', 'int8', 'nf4-nested', 'fp8-block', 'fp8-row', 'packed-zero', 'int-zero', 'nvfp4', 'mxfp4-packed',
    'hqq-4', 'aqlm-2x8', 'fbgemm')]


def main():
    nmbench, folder = sys.argv[1:3]
    folders, bad, names = [], 0, sys.argv[3:] or [n for n in FORMS if n not in SLOW]
    if names == ['all']:
        names = list(FORMS)
    for name in names:
        os.makedirs(f'{folder}/{name}', exist_ok=True)
        path, t, o = FORMS[name](f'{folder}/{name}')
        want = Model(t, **dict(OPTIONS, **o)).run(TOKENS)
        p = subprocess.run([nmbench, 'logits', path, '--tokens', ','.join(map(str, TOKENS)), '--json'], capture_output=True, text=True)
        if p.returncode:
            print(f'FAIL {name}: {p.stderr.strip()}')
            bad += 1
            continue
        off = np.abs(np.array(json.loads(p.stdout)['logits']) - want) - 1e-4 * np.abs(want)
        if not off.max() <= 1e-4:
            print(f'FAIL {name}: off by {off.max():.3g} (logits up to {np.abs(want).max():.3g})')
            bad += 1
        if os.path.isdir(path):
            folders.append(path)
    bad += bytes_agree(nmbench, folders) if folders else 0
    print(f'{len(names)} stored forms, {bad} failures')
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
