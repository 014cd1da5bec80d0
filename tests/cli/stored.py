# SPDX-License-Identifier: GPL-3.0-or-later
# Small Llama-like models in every stored quantisation of safetensors files and in the forms
# of llama2.c: the logits of the program against those of tiny_gguf.py with weights that
# are decoded here.  Usage: stored.py NMBENCH FOLDER [FORM..]
import json
import os
import struct
import subprocess
import sys

import numpy as np

from tiny_gguf import Model

TOKENS = [3, 17, 42, 9, 60, 3, 25, 11]
H, V, FF, HEADS, KV, L = 256, 64, 384, 4, 2, 2
R = np.random.default_rng(1)
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
NF4 = np.array([-1, -.6961928009986877, -.5250730514526367, -.39491748809814453, -.28444138169288635, -.18477343022823334,
                -.09105003625154495, 0, .07958029955625534, .16093020141124725, .24611230194568634, .33791524171829224,
                .44070982933044434, .5626170039176941, .7229568362236023, 1], np.float32)


# ------------------------------------------------------------------- containers
class T:
    """A tensor with the file's own name of its type."""

    def __init__(self, a, dtype=None):
        self.a = np.ascontiguousarray(a)
        self.dtype = dtype or {'float32': 'F32', 'float16': 'F16', 'int32': 'I32', 'int64': 'I64', 'uint8': 'U8',
                               'int8': 'I8'}[self.a.dtype.name]


def bf16(a):
    """Rounded towards zero: tensor and values."""
    u = np.asarray(a, np.float32).view(np.uint32) >> 16
    return T(u.astype(np.uint16), 'BF16'), (u << 16).astype(np.uint32).view(np.float32)


def e4m3(a):
    """Codes nearest to a, and their values."""
    codes = np.arange(256)
    e, m, s = codes >> 3 & 15, codes & 7, np.where(codes >> 7, -1.0, 1.0)
    v = s * np.where(e, (1 + m / 8) * 2.0**(e - 7), m * 2.0**-9)
    v[codes & 127 == 127] = 1e30
    order = np.argsort(v[:127])
    i = order[np.abs(v[:127][order][None] - np.abs(np.ravel(a))[:, None]).argmin(1)].reshape(np.shape(a))
    i = np.where(np.asarray(a) < 0, i | 128, i).astype(np.uint8)
    return T(i, 'F8_E4M3'), v[i]


def save(path, tensors):
    head, data, at = {}, [], 0
    for name, t in tensors.items():
        b = t.a.tobytes()
        head[name] = {'dtype': t.dtype, 'shape': list(t.a.shape), 'data_offsets': [at, at + len(b)]}
        data.append(b)
        at += len(b)
    h = json.dumps(head).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h + b''.join(data))


def stream(q, bits):
    """Codes [n, ..] along the first axis -> words, the first code lowest."""
    n = q.shape[0]
    b = (q[:, None] >> np.arange(bits).reshape(1, -1, *[1] * (q.ndim - 1)) & 1).reshape(n * bits, *q.shape[1:])
    b = b.reshape(-1, 32, *q.shape[1:]).astype(np.uint64)
    w = (b << np.arange(32, dtype=np.uint64).reshape(1, -1, *[1] * (q.ndim - 1))).sum(1)
    return w.astype(np.uint32).view(np.int32)


# ---------------------------------------------------------- forms of a matrix [n, k]
# Each takes a name and the shape and gives tensors of the file, and the values.
def codes(n, k, bits):
    return R.integers(0, 1 << bits, (n, k))


def size(k, bits):
    """A scale that makes values of about the size that keeps activations in bounds."""
    return (1.5 / (np.sqrt(k) * (1 << bits)) * R.uniform(0.5, 1.5)).astype(np.float32)


def scales(n, g, k, bits):
    return (R.uniform(0.5, 2, (n, g)) * 2 / (np.sqrt(k) * (1 << bits))).astype(np.float16)


def plain(name, n, k):
    w = (R.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)
    return {name + '.weight': T(w)}, w


def gptq(bits, group=128, v2=False, order=False):
    def form(name, n, k):
        g = k // group if group > 0 else 1
        width = k // g
        q, s, z = codes(n, k, bits), scales(n, g, k, bits), R.integers(1, 1 << bits, (n, g))
        idx = R.permutation(k) // width if order else np.arange(k) // width
        w = s.astype(np.float64)[:, idx] * (q - z[:, idx])
        return {name + '.qweight': T(stream(q.T, bits)), name + '.scales': T(s.T),
                name + '.qzeros': T(stream(z - (0 if v2 else 1), bits).T),
                name + '.g_idx': T(idx.astype(np.int32))}, w
    config = {'quant_method': 'gptq', 'bits': bits, 'group_size': group, 'desc_act': order, 'sym': False,
              'checkpoint_format': 'gptq_v2' if v2 else 'gptq'}
    return form, config


def awq():
    at = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(q):  # [k, n] -> [k, n / 8]: nibble i holds column at[i]
        q = q.reshape(q.shape[0], -1, 8)[:, :, at].astype(np.uint32)
        return (q << np.arange(0, 32, 4, dtype=np.uint32)).sum(2).astype(np.uint32).view(np.int32)

    def form(name, n, k):
        g = k // 128
        q, s, z = codes(n, k, 4), scales(n, g, k, 4), codes(n, g, 4)
        w = np.repeat(s.astype(np.float64), 128, 1) * (q - np.repeat(z, 128, 1))
        return {name + '.qweight': T(pack(q.T)), name + '.scales': T(s.T), name + '.qzeros': T(pack(z.T))}, w
    return form, {'quant_method': 'awq', 'bits': 4, 'group_size': 128, 'zero_point': True, 'version': 'gemm'}


def int8_rows():
    def form(name, n, k):
        q, s = R.integers(-127, 128, (n, k)).astype(np.int8), (R.uniform(1, 3, n) / np.sqrt(k)).astype(np.float32)
        return {name + '.weight': T(q), name + '.SCB': T(s), name + '.weight_format': T(np.array(0, np.uint8))}, q * (s[:, None] / 127.0)
    return form, {'quant_method': 'bitsandbytes', 'load_in_8bit': True, 'load_in_4bit': False, '_load_in_8bit': True}


def nf4(nested, fp4=False):
    table = NF4 if not fp4 else np.array([0, .0052083333, .66666667, 1, .33333333, .5, .16666667, .25, 0, -.0052083333, -.66666667,
                                          -1, -.33333333, -.5, -.16666667, -.25], np.float32)

    def form(name, n, k):
        q = R.integers(0, 16, n * k)
        packed = (q[0::2] << 4 | q[1::2]).astype(np.uint8).reshape(-1, 1)
        absmax = (R.uniform(1, 3, n * k // 64) / np.sqrt(k)).astype(np.float32)
        state = {'quant_type': 'fp4' if fp4 else 'nf4', 'blocksize': 64, 'dtype': 'float16', 'shape': [n, k]}
        out = {name + '.weight': T(packed), name + '.weight.quant_map': T(table)}
        if nested:
            levels = np.sort(R.uniform(-1, 1, 256)).astype(np.float32)
            blocks = -(-absmax.size // 256)
            more = np.full(blocks, 1.2 / np.sqrt(k), np.float32) * R.uniform(0.8, 1.2, blocks).astype(np.float32)
            c = R.integers(0, 256, absmax.size).astype(np.uint8)
            state.update(nested_blocksize=256, nested_dtype='float32', nested_offset=float(2 / np.sqrt(k)))
            out.update({name + '.weight.absmax': T(c), name + '.weight.nested_absmax': T(more),
                        name + '.weight.nested_quant_map': T(levels)})
            absmax = levels[c] * np.repeat(more, 256)[:c.size] + 2 / np.sqrt(k)
        else:
            out[name + '.weight.absmax'] = T(absmax)
        kind = 'fp4' if fp4 else 'nf4'
        out[f'{name}.weight.quant_state.bitsandbytes__{kind}'] = T(np.frombuffer(json.dumps(state).encode(), np.uint8))
        return out, (table[q] * np.repeat(absmax.astype(np.float64), 64)).reshape(n, k)
    return form, {'quant_method': 'bitsandbytes', 'load_in_4bit': True, 'load_in_8bit': False, 'bnb_4bit_use_double_quant': nested,
                  'bnb_4bit_quant_type': 'fp4' if fp4 else 'nf4', 'bnb_4bit_compute_dtype': 'float16'}


def fp8(rows, cols):
    """A scale for each block of rows x cols; 0: for all."""
    def form(name, n, k):
        t, v = e4m3(R.standard_normal((n, k)) * 20)
        s = (R.uniform(0.5, 2, (-(-n // (rows or n)), -(-k // (cols or k)))) / (20 * np.sqrt(k))).astype(np.float32)
        w = v * np.repeat(np.repeat(s.astype(np.float64), rows or n, 0)[:n], cols or k, 1)[:, :k]
        if rows and cols:
            return {name + '.weight': t, name + '.weight_scale_inv': T(s)}, w
        return {name + '.weight': t, name + '.weight_scale': T(s if rows else s.reshape(()))}, w
    if rows and cols:
        return form, {'quant_method': 'fp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', 'weight_block_size': [rows, cols]}
    weights = {'num_bits': 8, 'type': 'float', 'strategy': 'channel' if rows else 'tensor', 'symmetric': True, 'dynamic': False}
    return form, compressed('float-quantized', weights)


def compressed(kind, weights):
    return {'quant_method': 'compressed-tensors', 'format': kind, 'ignore': ['lm_head'], 'quantization_status': 'compressed',
            'config_groups': {'group_0': {'targets': ['Linear'], 'weights': weights, 'input_activations': None,
                                          'output_activations': None}}}


def packed(bits, asymmetric=False):
    def form(name, n, k):
        q, (st, s) = codes(n, k, bits), bf16(scales(n, k // 32, k, bits))
        z = codes(n, k // 32, bits) if asymmetric else np.full((n, k // 32), 1 << (bits - 1))
        out = {name + '.weight_packed': T(stream(q.T, bits).T), name + '.weight_scale': st,
               name + '.weight_shape': T(np.array([n, k], np.int64))}
        if asymmetric:
            out[name + '.weight_zero_point'] = T(stream(z, bits))
        return out, np.repeat(s.astype(np.float64), 32, 1) * (q - np.repeat(z, 32, 1))
    return form, compressed('pack-quantized', {'num_bits': bits, 'type': 'int', 'strategy': 'group', 'group_size': 32,
                                               'symmetric': not asymmetric, 'dynamic': False})


def int_rows():
    def form(name, n, k):
        q, (st, s) = R.integers(-127, 128, (n, k)).astype(np.int8), bf16(R.uniform(1, 3, (n, 1)) / np.sqrt(k) / 127)
        return {name + '.weight': T(q), name + '.weight_scale': st}, q * s.astype(np.float64)
    return form, compressed('int-quantized', {'num_bits': 8, 'type': 'int', 'strategy': 'channel', 'symmetric': True, 'dynamic': False})


def nvfp4(modelopt):
    def form(name, n, k):
        q = codes(n, k, 4)
        b = (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)
        st, s = e4m3(R.uniform(20, 200, (n, k // 16)))
        g = np.float32(1 / (200 * np.sqrt(k)))
        w = FP4[q] * np.repeat(s, 16, 1) * g
        if modelopt:
            return {name + '.weight': T(b), name + '.weight_scale': st, name + '.weight_scale_2': T(np.array(g, np.float32)),
                    name + '.input_scale': T(np.array(0.1, np.float32))}, w
        return {name + '.weight_packed': T(b), name + '.weight_scale': st,
                name + '.weight_global_scale': T(np.array([1 / g], np.float32))}, w
    if modelopt:
        return form, {'quant_method': 'modelopt', 'quant_algo': 'NVFP4', 'ignore': ['lm_head'],
                      'config_groups': {'group_0': {'weights': {'num_bits': 4, 'type': 'float', 'group_size': 16, 'dynamic': False},
                                                    'input_activations': {'num_bits': 4, 'type': 'float', 'group_size': 16,
                                                                          'dynamic': False}, 'targets': ['Linear']}}}
    return form, compressed('nvfp4-pack-quantized', {'num_bits': 4, 'type': 'float', 'strategy': 'tensor_group', 'group_size': 16,
                                                     'symmetric': True, 'dynamic': False})


def bitnet(multiply):
    def form(name, n, k):
        q = R.integers(0, 3, (n, k))
        s = q.reshape(4, n // 4, k)
        b = (s[0] | s[1] << 2 | s[2] << 4 | s[3] << 6).astype(np.uint8)
        t, v = bf16(np.array([1.3 / np.sqrt(k) if multiply else np.sqrt(k) / 1.3]))
        v = float(v[0])
        return {name + '.weight': T(b), name + '.weight_scale': t}, (q - 1) * (v if multiply else 1 / v)
    config = {'quant_method': 'bitnet', 'modules_to_not_convert': None}
    if multiply:
        config.update(linear_class='autobitlinear', quantization_mode='offline')
    return form, config


# --------------------------------------------------------------------- the model
LINEAR = {'attn_q': ('self_attn.q_proj', H, H), 'attn_k': ('self_attn.k_proj', H * KV // HEADS, H),
          'attn_v': ('self_attn.v_proj', H * KV // HEADS, H), 'attn_output': ('self_attn.o_proj', H, H),
          'ffn_gate': ('mlp.gate_proj', FF, H), 'ffn_up': ('mlp.up_proj', FF, H), 'ffn_down': ('mlp.down_proj', H, FF)}
NORM = {'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_norm'.replace('_norm', '_layernorm')}
CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': H, 'intermediate_size': FF,
          'num_hidden_layers': L, 'num_attention_heads': HEADS, 'num_key_value_heads': KV, 'vocab_size': V, 'rms_norm_eps': 1e-5,
          'max_position_embeddings': 64, 'hidden_act': 'silu', 'torch_dtype': 'float16', 'tie_word_embeddings': False,
          'rope_theta': 10000.0}
OPTIONS = dict(layers=L, heads=HEADS, kv=KV, dk=H // HEADS)


def model(form):
    """Tensors of the file, and values by GGUF's names."""
    def vector(n):
        return (1 + 0.2 * R.standard_normal(n)).astype(np.float32)
    out, t = {}, {}
    for name, hf in (('token_embd', 'model.embed_tokens'), ('output', 'lm_head')):
        more, t[name + '.weight'] = plain(hf, V, H)
        t[name + '.weight'] = t[name + '.weight']
        out.update(more)
    t['output_norm.weight'] = vector(H)
    out['model.norm.weight'] = T(t['output_norm.weight'])
    for i in range(L):
        for name, hf in NORM.items():
            v = t[f'blk.{i}.{name}.weight'] = vector(H)
            out[f'model.layers.{i}.{hf}.weight'] = T(v)
        for name, (hf, n, k) in LINEAR.items():
            more, t[f'blk.{i}.{name}.weight'] = form(f'model.layers.{i}.{hf}', n, k)
            out.update(more)
    return out, t


def hf(folder, form, quantization, shards=1):
    out, t = model(form)
    config = dict(CONFIG)
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


def bitnet_model(folder, multiply):
    form, q = bitnet(multiply)
    out, t = model(form)
    for i in range(L):
        for name, hfname, n in (('attn_sub_norm', 'self_attn.attn_sub_norm', H), ('ffn_sub_norm', 'mlp.ffn_sub_norm', FF)):
            v = t[f'blk.{i}.{name}.weight'] = (1 + 0.2 * R.standard_normal(n)).astype(np.float32)
            out[f'model.layers.{i}.{hfname}.weight'] = T(v)
    with open(folder + '/config.json', 'w') as f:
        json.dump(dict(CONFIG, model_type='bitnet', architectures=['BitNetForCausalLM'], hidden_act='relu2',
                       quantization_config=q), f)
    save(folder + '/model.safetensors', out)
    return folder, t, dict(act='relu2')


def gpt_oss(folder):
    """Experts as gpt-oss stores them: blocks of MXFP4, gate and up taking turns."""
    E, ff, dk = 4, 64, 32
    out, t = {}, {}

    def put(name, hfname, a):
        t[name] = a
        out[hfname] = T(a)

    def rand(*shape, by=None, at=0):
        return (at + R.standard_normal(shape) * (by or shape[-1]**-0.5)).astype(np.float32)

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
              'num_local_experts': E, 'num_experts_per_tok': 2, 'experts_per_token': 2, 'rms_norm_eps': 1e-5, 'sliding_window': 4,
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


def llama2c(folder, version, tied=False, group=64):
    """Adjacent pairs turn; in version 2 all matrices are int8 in groups."""
    out, t = model(plain)
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


FORMS = {
    'plain': lambda f: hf(f, plain, None), 'shards': lambda f: hf(f, plain, None, 3),
    **{f'gptq-{b}': (lambda b: lambda f: hf(f, *gptq(b)))(b) for b in (2, 3, 4, 8)},
    'gptq-v2': lambda f: hf(f, *gptq(4, v2=True)), 'gptq-order': lambda f: hf(f, *gptq(4, order=True)),
    'gptq-group32': lambda f: hf(f, *gptq(3, 32)), 'gptq-row': lambda f: hf(f, *gptq(4, -1)),
    'awq': lambda f: hf(f, *awq()), 'int8': lambda f: hf(f, *int8_rows()),
    'nf4': lambda f: hf(f, *nf4(False)), 'nf4-nested': lambda f: hf(f, *nf4(True)), 'bnb-fp4': lambda f: hf(f, *nf4(False, True)),
    'fp8-block': lambda f: hf(f, *fp8(128, 128)), 'fp8-row': lambda f: hf(f, *fp8(1, 0)), 'fp8-tensor': lambda f: hf(f, *fp8(0, 0)),
    'packed-4': lambda f: hf(f, *packed(4)), 'packed-8': lambda f: hf(f, *packed(8)), 'packed-zero': lambda f: hf(f, *packed(4, True)),
    'int-rows': lambda f: hf(f, *int_rows()), 'nvfp4': lambda f: hf(f, *nvfp4(True)), 'nvfp4-packed': lambda f: hf(f, *nvfp4(False)),
    'bitnet': lambda f: bitnet_model(f, False), 'bitnet-multiply': lambda f: bitnet_model(f, True), 'mxfp4': gpt_oss,
    'llama2c-0': lambda f: llama2c(f, 0), 'llama2c-0-tied': lambda f: llama2c(f, 0, True), 'llama2c-1': lambda f: llama2c(f, 1),
    'llama2c-1-tied': lambda f: llama2c(f, 1, True), 'llama2c-2': lambda f: llama2c(f, 2), 'llama2c-2-tied': lambda f: llama2c(f, 2, True),
}


def main():
    nmbench, folder = sys.argv[1:3]
    bad, names = 0, sys.argv[3:] or list(FORMS)
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
    print(f'{len(names)} stored forms, {bad} failures')
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
