# SPDX-License-Identifier: GPL-3.0-or-later
# Matrices in every published quantised layout of safetensors files: the tensors that are
# stored, drawn here, and the values that they stand for.
import json
import struct

import numpy as np

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
        self.dtype = dtype or {'float32': 'F32', 'float16': 'F16', 'int16': 'I16', 'int32': 'I32', 'int64': 'I64', 'uint8': 'U8',
                               'int8': 'I8'}[self.a.dtype.name]


def bf16(a):
    """Rounded towards zero: tensor and values."""
    u = np.asarray(a, np.float32).view(np.uint32) >> 16
    return T(u.astype(np.uint16), 'BF16'), (u << 16).astype(np.uint32).view(np.float32)


def e4m3_values():
    codes = np.arange(256)
    e, m, s = codes >> 3 & 15, codes & 7, np.where(codes >> 7, -1.0, 1.0)
    v = s * np.where(e, (1 + m / 8) * 2.0**(e - 7), m * 2.0**-9)
    v[codes & 127 == 127] = np.nan
    return v


E4M3 = e4m3_values()


def e4m3(a):
    """Codes next to a, from below, and their values."""
    i = np.searchsorted(E4M3[:127], np.abs(a), side='right') - 1
    i = np.where(np.asarray(a) < 0, i | 128, i).astype(np.uint8)
    return T(i, 'F8_E4M3'), E4M3[i]


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


def plain(name, n, k, dtype=np.float32):
    w = (R.standard_normal((n, k)) / np.sqrt(k)).astype(dtype)
    return {name + '.weight': T(w)}, w


def dense(name, n, k):
    return plain(name, n, k, np.float16)


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


def gemv(group=128):
    """AutoAWQ's other layout: along the inputs, zero points padded to whole words."""
    def form(name, n, k):
        g, pad = k // group, {32: 32, 64: 16, 128: 8}[group]
        width = -(-g // pad) * pad
        q, s, z = codes(n, k, 4), np.zeros((n, width), np.float16), np.zeros((n, width), int)
        s[:, :g], z[:, :g] = scales(n, g, k, 4), codes(n, g, 4)
        w = np.repeat(s[:, :g].astype(np.float64), group, 1) * (q - np.repeat(z[:, :g], group, 1))
        return {name + '.qweight': T(stream(q.T, 4).T), name + '.scales': T(s), name + '.qzeros': T(stream(z.T, 4).T)}, w
    return form, {'quant_method': 'awq', 'bits': 4, 'group_size': group, 'zero_point': True, 'version': 'gemv'}


def hqq(bits, group=64, axis=1):
    """Groups are rows or columns of a matrix; the first rows have the high bits."""
    def form(name, n, k):
        g, per = n * k // group, 8 // bits
        q = R.integers(0, 1 << bits, (g, group) if axis else (group, g))
        s = (R.uniform(0.5, 2, g) * 2 / (np.sqrt(k) * (1 << bits))).astype(np.float16)
        z = (R.uniform(0.2, 0.8, g) * (1 << bits)).astype(np.float16)
        step = len(q) // per
        b = sum(q[i * step:(i + 1) * step] << bits * (per - 1 - i) for i in range(per)).astype(np.uint8)
        turn = (lambda v: v[:, None]) if axis else (lambda v: v[None])
        w = (q - turn(z).astype(np.float64)) * turn(s).astype(np.float64)
        more = {'shape': [n, k], 'nbits': bits, 'group_size': group, 'axis': axis}
        return {name + '.W_q': T(b), name + '.scale': T(turn(s)), name + '.zero': T(turn(z)),
                **{f'{name}.{key}': T(np.array(v, np.int64)) for key, v in more.items()}}, w.reshape(n, k)
    return form, {'quant_method': 'hqq', 'quant_config': {'weight_quant_params': {
        'nbits': bits, 'group_size': group, 'axis': axis, 'channel_wise': True, 'optimize': True, 'round_zero': False,
        'view_as_float': False}, 'scale_quant_params': None, 'zero_quant_params': None, 'offload_meta': False},
        'skip_modules': ['lm_head']}


def aqlm(books, bits, out_group=1, in_group=8):
    def form(name, n, k):
        c = R.integers(0, 1 << bits, (n // out_group, k // in_group, books))
        b = (R.standard_normal((books, 1 << bits, out_group, in_group)) / np.sqrt(k * books)).astype(np.float16)
        s = R.uniform(0.5, 2, (n // out_group, 1, 1, 1)).astype(np.float16)
        w = sum(b[m].astype(np.float64)[c[..., m]] for m in range(books)) * s
        code = np.int8 if bits <= 8 else np.int16
        return {name + '.codes': T(c.astype(code)), name + '.codebooks': T(b), name + '.scales': T(s)}, \
            w.swapaxes(1, 2).reshape(n, k)
    return form, {'quant_method': 'aqlm', 'in_group_size': in_group, 'out_group_size': out_group, 'num_codebooks': books,
                  'nbits_per_codebook': bits, 'linear_weights_not_to_quantize': ['lm_head']}


def int8_rows():
    def form(name, n, k):
        q, s = R.integers(-127, 128, (n, k)).astype(np.int8), (R.uniform(1, 3, n) / np.sqrt(k)).astype(np.float32)
        return {name + '.weight': T(q), name + '.SCB': T(s), name + '.weight_format': T(np.array(0, np.uint8))}, q * (s[:, None] / 127.0)
    return form, {'quant_method': 'bitsandbytes', 'load_in_8bit': True, 'load_in_4bit': False, '_load_in_8bit': True}


def nf4(nested, fp4=False, size=64, storage=None):
    table = NF4 if not fp4 else np.array([0, .0052083333, .66666667, 1, .33333333, .5, .16666667, .25, 0, -.0052083333, -.66666667,
                                          -1, -.33333333, -.5, -.16666667, -.25], np.float32)

    def form(name, n, k):
        q = R.integers(0, 16, n * k)
        packed = (q[0::2] << 4 | q[1::2]).astype(np.uint8).reshape(-1, 1)
        if storage:
            packed = T(packed.reshape(-1).view(np.uint16).reshape(-1, 1), storage)
        absmax = (R.uniform(1, 3, n * k // size) / np.sqrt(k)).astype(np.float32)
        state = {'quant_type': 'fp4' if fp4 else 'nf4', 'blocksize': size, 'dtype': 'float16', 'shape': [n, k]}
        out = {name + '.weight': packed if storage else T(packed), name + '.weight.quant_map': T(table)}
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
        return out, (table[q] * np.repeat(absmax.astype(np.float64), size)).reshape(n, k)
    return form, {'quant_method': 'bitsandbytes', 'load_in_4bit': True, 'load_in_8bit': False, 'bnb_4bit_use_double_quant': nested,
                  'bnb_4bit_quant_type': 'fp4' if fp4 else 'nf4', 'bnb_4bit_compute_dtype': 'float16'}


def fp8(rows, cols, how='fp8'):
    """A scale for each block of rows x cols; 0: for all."""
    def form(name, n, k):
        t, v = e4m3(R.standard_normal((n, k)) * 20)
        s = (R.uniform(0.5, 2, (-(-n // (rows or n)), -(-k // (cols or k)))) / (20 * np.sqrt(k))).astype(np.float32)
        w = v * np.repeat(np.repeat(s.astype(np.float64), rows or n, 0)[:n], cols or k, 1)[:, :k]
        if rows and cols:
            return {name + '.weight': t, name + '.weight_scale_inv': T(s)}, w
        return {name + '.weight': t, name + '.weight_scale': T(s if rows else s.reshape(()))}, w
    def half_scales(name, n, k):  # in the model's own type
        t, v = e4m3(R.standard_normal((n, k)) * 20)
        s = (R.uniform(0.5, 2, (-(-n // (rows or n)), -(-k // (cols or k)))) / (20 * np.sqrt(k))).astype(np.float16)
        w = v * np.repeat(np.repeat(s.astype(np.float64), rows or n, 0)[:n], cols or k, 1)[:, :k]
        return {name + '.weight': t, name + '.weight_scale': T(s if rows else s.reshape(1))}, w
    weights = {'num_bits': 8, 'type': 'float', 'strategy': 'channel' if rows else 'tensor', 'symmetric': True, 'dynamic': False}
    if how == 'fp8':
        return form, {'quant_method': 'fp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', 'weight_block_size': [rows, cols]}
    if how == 'fbgemm':
        return form, {'quant_method': 'fbgemm_fp8', 'activation_scale_ub': 1200.0, 'modules_to_not_convert': ['lm_head']}
    if how == 'quark':
        return form, {'quant_method': 'quark', 'exclude': ['lm_head'], 'global_quant_config': {'weight': {
            'dtype': 'fp8_e4m3', 'qscheme': 'per_tensor' if not rows else 'per_channel', 'is_dynamic': False}}}
    if how in ('FP8', 'FP8_PB_WO'):
        def modelopt(name, n, k):
            out, w = form(name, n, k)
            if rows:
                s = out.pop(name + '.weight_scale_inv').a
                out[name + '.weight_scale'] = T(s[:, None, :, None])
            else:
                out[name + '.input_scale'] = T(np.array(0.1, np.float32))
            return out, w
        return modelopt, {'quant_method': 'modelopt', 'quant_algo': how, 'exclude_modules': ['lm_head']}
    if rows and cols:
        weights.update(strategy='block', block_structure=[rows, cols])
    return half_scales, compressed('float-quantized', weights)


def torchao(kind):
    def form(name, n, k):
        if kind == 'Int8WeightOnlyConfig':
            t, (s, v) = T(R.integers(-127, 128, (n, k)).astype(np.int8)), bf16(R.uniform(1, 3, (n, 1)) / np.sqrt(k) / 127)
            w = t.a * v.astype(np.float64)
        else:
            t, q = e4m3(R.standard_normal((n, k)) * 20)
            v = (R.uniform(0.5, 2, (n, 1)) / (20 * np.sqrt(k))).astype(np.float32)
            s, w = T(v), q * v.astype(np.float64)
        return {name + '._weight_qdata': t, name + '._weight_scale': s}, w
    return form, {'quant_method': 'torchao', 'quant_type': {'default': {'_type': kind, '_data': {}}},
                  'modules_to_not_convert': ['lm_head']}


def mxfp8():
    def form(name, n, k):
        t, v = e4m3(R.standard_normal((n, k)) * 20)
        e = R.integers(115, 118, (n, k // 32)).astype(np.uint8)
        return {name + '.weight': t, name + '.weight_scale': T(e)}, v * np.repeat(2.0**(e.astype(int) - 127), 32, 1) * 4
    def smaller(name, n, k):
        out, w = form(name, n, k)
        return out, w / 4
    return smaller, {'quant_method': 'modelopt', 'quant_algo': 'MXFP8', 'exclude_modules': ['lm_head']}


def compressed(kind, weights):
    return {'quant_method': 'compressed-tensors', 'format': kind, 'ignore': ['lm_head'], 'quantization_status': 'compressed',
            'config_groups': {'group_0': {'targets': ['Linear'], 'weights': weights, 'input_activations': None,
                                          'output_activations': None}}}


def words(q, bits):
    """Along the last axis, 32 / bits codes to a word, the first lowest."""
    per = 32 // bits
    q = np.concatenate([q, np.zeros((len(q), -q.shape[1] % per), q.dtype)], 1).reshape(len(q), -1, per)
    return (q.astype(np.uint64) << np.arange(0, per * bits, bits, dtype=np.uint64)).sum(2).astype(np.uint32).view(np.int32)


def packed(bits, asymmetric=False, group=32, order=False):
    def form(name, n, k):
        g = k // group if group else 1
        q, (st, s) = codes(n, k, bits), bf16(scales(n, g, k, bits))
        z = codes(n, g, bits) if asymmetric else np.full((n, g), 1 << (bits - 1))
        at = R.permutation(k) // (k // g) if order else np.arange(k) // (k // g)
        out = {name + '.weight_packed': T(words(q, bits)), name + '.weight_scale': st,
               name + '.weight_shape': T(np.array([n, k], np.int64))}
        if asymmetric:
            out[name + '.weight_zero_point'] = T(words(z.T, bits).T)
        if order:
            out[name + '.weight_g_idx'] = T(at.astype(np.int32))
        return out, s.astype(np.float64)[:, at] * (q - z[:, at])
    return form, compressed('pack-quantized', {'num_bits': bits, 'type': 'int', 'strategy': 'group' if group else 'channel',
                                               'group_size': group or None, 'symmetric': not asymmetric, 'dynamic': False,
                                               'actorder': 'group' if order else None})


def int_rows(asymmetric=False):
    def form(name, n, k):
        q, (st, s) = R.integers(-127, 128, (n, k)).astype(np.int8), bf16(R.uniform(1, 3, (n, 1)) / np.sqrt(k) / 127)
        z = R.integers(-30, 30, (n, 1)).astype(np.int8)
        out = {name + '.weight': T(q), name + '.weight_scale': st}
        if not asymmetric:
            return out, q * s.astype(np.float64)
        return {**out, name + '.weight_zero_point': T(z)}, (q.astype(int) - z) * s.astype(np.float64)
    return form, compressed('int-quantized', {'num_bits': 8, 'type': 'int', 'strategy': 'channel', 'symmetric': not asymmetric,
                                              'dynamic': False})


def mxfp4(how):
    """Quark: x.weight; compressed-tensors: x.weight_packed; scales as bytes."""
    def form(name, n, k):
        q, e = codes(n, k, 4), R.integers(118, 122, (n, k // 32)).astype(np.uint8)
        b = (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)
        return {name + ('.weight' if how == 'quark' else '.weight_packed'): T(b), name + '.weight_scale': T(e)}, \
            FP4[q] * np.repeat(2.0**(e.astype(int) - 127), 32, 1)
    if how == 'quark':
        return form, {'quant_method': 'quark', 'exclude': ['lm_head'], 'global_quant_config': {'weight': {
            'dtype': 'fp4', 'qscheme': 'per_group', 'group_size': 32, 'is_dynamic': False, 'scale_format': 'e8m0'}}}
    return form, compressed('mxfp4-pack-quantized', {'num_bits': 4, 'type': 'float', 'strategy': 'group', 'group_size': 32,
                                                     'symmetric': True, 'dynamic': False})


def nvfp4(modelopt, awq=False):
    def form(name, n, k):
        q = codes(n, k, 4)
        b = (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)
        st, s = e4m3(R.uniform(20, 200, (n, k // 16)))
        g = np.float32(1 / (200 * np.sqrt(k)))
        w = FP4[q] * np.repeat(s, 16, 1) * g
        if modelopt:
            out = {name + '.weight': T(b), name + '.weight_scale': st, name + '.weight_scale_2': T(np.array(g, np.float32)),
                   name + '.input_scale': T(np.array(0.1, np.float32))}
            if awq:
                f = R.uniform(0.5, 2, k).astype(np.float16)
                out[name + '.pre_quant_scale'] = T(f)
                w = w * f
            return out, w
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


def online():
    """BitNet's master weights: what they are rounded to is what counts."""
    def form(name, n, k):
        t, w = bf16(R.standard_normal((n, k)) / np.sqrt(k))
        mean = np.abs(w.astype(np.float64)).mean()
        q = np.clip(np.round(w.astype(np.float64) / mean), -1, 1)
        u = np.float32(mean).view(np.uint32)
        near = np.uint32((int(u) + 0x7fff + (int(u) >> 16 & 1)) & 0xffff0000).view(np.float32)
        return {name + '.weight': t}, q * float(near)
    return form, {'quant_method': 'bitnet', 'linear_class': 'autobitlinear', 'quantization_mode': 'online'}
