#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes blocks.json: one seeded random block of every GGUF type and its values in
# binary32, by formulas written per element (ggml-common.h), apart from the C code.
import json
import random
import struct
import numpy as np

f = np.float32
rng = random.Random(20)
NL = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
F4 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]


def half(b, i):
    return f(struct.unpack_from('<e', b, i)[0])


def nib(qs, j):
    return qs[j] & 15 if j < 16 else qs[j - 16] >> 4


def ksc(s, j):
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return (s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4


def kblock(b, j, qh, qs):
    sub, l = divmod(j, 32)
    sc, mn = ksc(b[4:16], sub)
    q = qs[32 * (sub // 2) + l] >> (4 if sub % 2 else 0) & 15
    if qh:
        q += (qh[l] >> sub & 1) * 16
    return half(b, 0) * f(sc) * f(q) - half(b, 2) * f(mn)


def q2(b, j):
    n, k, l = j // 128, j % 128 // 32, j % 32
    s = b[8 * n + 2 * k + l // 16]
    return half(b, 80) * f(s & 15) * f(b[16 + 32 * n + l] >> 2 * k & 3) - half(b, 82) * f(s >> 4)


def q3(b, j):
    n, k, l = j // 128, j % 128 // 32, j % 32
    i, s = 8 * n + 2 * k + l // 16, b[96:108]
    sc = ((s[i] & 15 if i < 8 else s[i - 8] >> 4) | (s[8 + i % 4] >> 2 * (i // 4) & 3) << 4) - 32
    q = (b[32 + 32 * n + l] >> 2 * k & 3) - (0 if b[l] >> 4 * n + k & 1 else 4)
    return half(b, 108) * f(sc) * f(q)


def q6(b, j):
    n, k, l = j // 128, j % 128 // 32, j % 32
    low = b[64 * n + 32 * (k % 2) + l]
    q = (low & 15 if k < 2 else low >> 4) | (b[128 + 32 * n + l] >> 2 * k & 3) << 4
    sc = struct.unpack_from('b', b, 192 + 8 * n + 2 * k + l // 16)[0]
    return half(b, 208) * f(sc) * f(q - 32)


def iq4xs(b, j):
    s, l = divmod(j, 32)
    ls = (b[4 + s // 2] >> 4 * (s % 2) & 15) | (struct.unpack_from('<H', b, 2)[0] >> 2 * s & 3) << 4
    return half(b, 0) * f(ls - 32) * f(NL[nib(b[8 + 16 * s:], l)])


def tq1(b, j):
    if j < 160:
        byte, n = b[j % 32], j // 32
    elif j < 240:
        byte, n = b[32 + (j - 160) % 16], (j - 160) // 16
    else:
        byte, n = b[48 + (j - 240) % 4], (j - 240) // 4
    return f(((byte * 3 ** n & 255) * 3 >> 8) - 1) * half(b, 52)


def ue4m3(e):
    if e in (0, 0x7f):
        return f(0)
    return f((e & 7) / 8 * 2.0 ** -6 if e < 8 else (1 + (e & 7) / 8) * 2.0 ** ((e >> 3) - 7))


def nvfp4(b, j):
    g, l = divmod(j, 16)
    q = b[4 + 8 * g + l % 8] >> (4 if l > 7 else 0) & 15
    return f(F4[q]) * f(0.5) * ue4m3(b[g] & 0x7f)


def plain(fmt):
    return lambda b, j: f(struct.unpack_from('<' + fmt, b)[0])


def bit5(b, at, j):
    return nib(b[at + 4:], j) | (struct.unpack_from('<I', b, at)[0] >> j & 1) << 4


# type: elements, bytes, places of half floats, value of element j
TYPES = {
    'F32': (1, 4, [], plain('f')), 'F16': (1, 2, [], plain('e')),
    'BF16': (1, 2, [], lambda b, j: f(struct.unpack('<f', b'\0\0' + b)[0])),
    'F64': (1, 8, [], plain('d')), 'I8': (1, 1, [], plain('b')), 'I16': (1, 2, [], plain('h')),
    'I32': (1, 4, [], plain('i')), 'I64': (1, 8, [], plain('q')),
    'Q4_0': (32, 18, [0], lambda b, j: half(b, 0) * f(nib(b[2:], j) - 8)),
    'Q4_1': (32, 20, [0, 2], lambda b, j: half(b, 0) * f(nib(b[4:], j)) + half(b, 2)),
    'Q5_0': (32, 22, [0], lambda b, j: half(b, 0) * f(bit5(b, 2, j) - 16)),
    'Q5_1': (32, 24, [0, 2], lambda b, j: half(b, 0) * f(bit5(b, 4, j)) + half(b, 2)),
    'Q8_0': (32, 34, [0], lambda b, j: half(b, 0) * f(struct.unpack_from('b', b, 2 + j)[0])),
    'Q2_K': (256, 84, [80, 82], q2), 'Q3_K': (256, 110, [108], q3),
    'Q4_K': (256, 144, [0, 2], lambda b, j: kblock(b, j, None, b[16:])),
    'Q5_K': (256, 176, [0, 2], lambda b, j: kblock(b, j, b[16:48], b[48:])),
    'Q6_K': (256, 210, [208], q6),
    'IQ4_NL': (32, 18, [0], lambda b, j: half(b, 0) * f(NL[nib(b[2:], j)])),
    'IQ4_XS': (256, 136, [0], iq4xs), 'TQ1_0': (256, 54, [52], tq1),
    'TQ2_0': (256, 66, [64],
              lambda b, j: half(b, 64) * f((b[j // 128 * 32 + j % 32] >> j % 128 // 32 * 2 & 3) - 1)),
    'MXFP4': (32, 17, [], lambda b, j: f(2.0 ** (b[0] - 128)) * f(F4[nib(b[1:], j)])),
    'NVFP4': (64, 36, [], nvfp4),
    'Q1_0': (128, 18, [0], lambda b, j: half(b, 0) * f(1 if b[2 + j // 8] >> j % 8 & 1 else -1)),
    'Q2_0': (64, 18, [0], lambda b, j: half(b, 0) * f((b[2 + j // 4] >> 2 * (j % 4) & 3) - 1)),
}

out = []
for name, (elems, size, halves, value) in TYPES.items():
    b = bytearray(rng.randrange(256) for _ in range(size))
    for at in halves:
        struct.pack_into('<e', b, at, rng.uniform(-0.1, 0.1))
    if name in ('F32', 'F16', 'F64'):
        struct.pack_into({'F32': '<f', 'F16': '<e', 'F64': '<d'}[name], b, 0, rng.uniform(-3, 3))
    if name == 'MXFP4':
        b[0] = 120
    vals = [float(value(bytes(b), j)) for j in range(elems)]
    out.append({'type': name, 'rows': [{'hex': b.hex(), 'f32': vals}]})
text = ',\n'.join(' ' + json.dumps(o, separators=(',', ':')) for o in out)
print('[\n' + text + '\n]')
