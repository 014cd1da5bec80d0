# SPDX-License-Identifier: GPL-3.0-or-later
# usage: hostile.py NMBENCH FOLDER.  A table of hostile weight files, and what is said of each:
# one line on stderr without control characters, the words, exit code 2 (1: unsupported).
import json
import os
import struct
import subprocess
import sys

nmbench, folder = sys.argv[1:]
cases = []  # path, words, code


def put(name, data, words, code=2):
    path = os.path.join(folder, name)
    with open(path, 'wb') as f:
        f.write(data)
    cases.append((path, words, code))


# ---------------------------------------------------------------------- GGUF
def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(b)) + b


def number(key, v):
    return text(key) + struct.pack('<II', 4, v)


def tensor(name, dims, kind, offset):
    return (text(name) + struct.pack('<I', len(dims)) + struct.pack(f'<{len(dims)}Q', *dims) +
            struct.pack('<IQ', kind, offset))


def gguf(keys, tensors, data=64, nkey=None):
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys) if nkey is None else nkey)
    head += b''.join(keys) + b''.join(tensors)
    return head + bytes(-len(head) % 32) + bytes(data)


put('keys.gguf', gguf([], [], nkey=1 << 60), '1152921504606846976 keys, more than fit')
put('length.gguf', gguf([struct.pack('<Q', 1 << 62) + b'abc'], []), 'has 4611686018427387904 bytes')
put('escape.gguf', gguf([], [tensor(b'\x1b[2J\x07x\n', [32, 1], 99, 0)]), r"tensor '\x1b[2J\x07x\x0a': found type 99")
put('long.gguf', gguf([], [tensor(b'n' * 60000, [32, 1], 99, 0)]), 'found type 99')
put('nested.gguf', gguf([text('k') + struct.pack('<I', 9) + struct.pack('<IQ', 9, 1) * 2000], []), "key 'k'")
put('twice.gguf', gguf([number('k', 1)] * 2, [tensor('a', [8], 0, 0)]), "key 'k': it stands twice")
put('zero.gguf', gguf([], [tensor('a', [0, 2], 0, 0)]), "tensor 'a': a dimension is 0")
put('large.gguf', gguf([], [tensor('a', [1 << 63, 1], 0, 0)]), "tensor 'a': a dimension is 9223372036854775808")
put('product.gguf', gguf([], [tensor('a', [1 << 31, 1 << 31], 0, 0)]), "tensor 'a': dimension 1 is 2147483648")
put('past.gguf', gguf([], [tensor('a', [8], 0, 1 << 40)]), "tensor 'a': its 32 bytes")
put('align.gguf', gguf([number('general.alignment', 0)], [tensor('a', [8], 0, 0)]), 'general.alignment')
for n in (3, 7, 12, 20, 23):
    put(f'cut{n}.gguf', gguf([], [tensor('a', [8], 0, 0)])[:n], 'found bytes' if n < 4 else f'ends at byte {n}')
part = [text('split.no') + struct.pack('<IH', 2, 0), text('split.count') + struct.pack('<IH', 2, 2),
        text('split.tensors.count') + struct.pack('<Ii', 5, 2)]
put('m-00001-of-00002.gguf', gguf(part, [tensor('a', [8], 0, 0)]), 'm-00002-of-00002.gguf: error: No such file')


# --------------------------------------------------------------- safetensors
def safetensors(head, data=0, length=None):
    b = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack('<Q', len(b) if length is None else length) + b + bytes(data)


def entry(dtype, shape, begin, end):
    return {'dtype': dtype, 'shape': shape, 'data_offsets': [begin, end]}


put('past.safetensors', safetensors(b'{}', length=1 << 40), 'a length within the file')
put('turned.safetensors', safetensors({'a': entry('F32', [2], 8, 0)}, 8), "tensor 'a': data_offsets is [8,0]")
put('hole.safetensors', safetensors({'a': entry('F32', [1], 0, 4), 'b': entry('F32', [1], 8, 12)}, 12), 'there is a hole')
put('over.safetensors', safetensors({'a': entry('F32', [2], 0, 8), 'b': entry('F32', [2], 4, 12)}, 12), 'it overlaps another')
put('below.safetensors', safetensors({'a': entry('F32', [-1], 0, 4)}, 4), "tensor 'a': shape is [-1]")
put('zero.safetensors', safetensors({'a': entry('I32', [0, 1 << 50, 1 << 12], 0, 0)}), "tensor 'a': dimension 2 is 4096")
put('twice.safetensors', safetensors(b'{"a":1,"a":1}'), 'duplicate object key')
put('deep.safetensors', safetensors(b'{"a":' + b'[' * 100000), 'maximum parsing depth')
put('type.safetensors', safetensors({'a': entry('WAT', [1], 0, 4)}, 4), "tensor 'a': dtype is \"WAT\"")
for i, (shard, words) in enumerate((('../../etc/passwd', "found file '../../etc/passwd'"), ('..', "found file '..'"),
                                    ('.', 'no ordinary file'), ('gone', 'gone: error: No such file'),
                                    ('one', "tensor 'b': "))):
    path = os.path.join(folder, f'index{i}')
    os.mkdir(path)
    put(f'index{i}/one', safetensors({'a': entry('F32', [1], 0, 4)}, 4), '')
    cases[-1] = (path, words, 2)
    with open(os.path.join(path, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'weight_map': {'b': shard}}, f)


# ---------------------------------------------------------------------- .bin
def llama2(*v):
    return struct.pack('<7i', *v)


put('below.bin', llama2(8, 8, 1, 2, 1, -2147483648, 4) + bytes(4096), 'vocabulary 2147483648')
put('none.bin', llama2(8, 8, 1, 0, 0, 4, 4) + bytes(4096), 'heads 0 and 0')
put('large.bin', llama2(1 << 24, 1 << 24, 2048, 1, 1, 1 << 24, 1 << 24) + bytes(64), "tensor 'token_embd.weight'")
put('version.bin', struct.pack('<II', 0x616b3432, 9) + bytes(300), 'llama2.c version 9', 1)
put('group.bin', struct.pack('<II7iBi', 0x616b3432, 2, 8, 8, 1, 2, 1, 4, 4, 1, 0) + bytes(300), 'the group is 0')
rwkv = struct.pack('<6I', 0x67676d66, 101, 256, 8, 1, 0)
put('dims.bin', rwkv + struct.pack('<3I', 3, 5, 0) + b'\xff' * 12 + b'abcde', "tensor 'abcde'")
put('name.bin', rwkv + struct.pack('<3I', 1, 2**32 - 1, 0), 'a name of 4294967295 bytes')
put('empty.bin', b'', 'an empty file')
weight = struct.pack('<I', 0x7fc00000)  # NaN
put('nan.bin', llama2(8, 8, 1, 2, 1, 4, 4) + weight + bytes(4096), '')
nan = cases.pop()[0]

# ----------------------------------------------------------- no ordinary files
os.mkfifo(os.path.join(folder, 'fifo.gguf'))
os.symlink('loop.gguf', os.path.join(folder, 'loop.gguf'))
cases += [(os.path.join(folder, 'fifo.gguf'), 'no ordinary file', 2),
          (os.path.join(folder, 'loop.gguf'), 'symbolic links', 2),
          (os.path.join(folder, 'absent.gguf'), 'No such file', 2)]

commands = [['model', None], ['logits', None, '--tokens', '1'], ['verify', None, '--machine', 'gpu-a100'],
            ['generate', None, '--tokens', '1', '-n', '2'], ['perplexity', None, '--text', __file__],
            ['compile', '-m', None, '-M', 'gpu-a100']]
bad = 0


def check(command, path, words, code):
    global bad
    args = [path if a is None else a for a in command]
    r = subprocess.run([nmbench] + args, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    err = r.stderr
    one = err.count(b'\n') == 1 and all(b >= 32 or b == 10 for b in err) and len(err) < 4096
    if r.returncode != code or not one or words not in err.decode('utf8', 'replace'):
        print(f'{" ".join(args)}: exit code {r.returncode}, {err[:300]}; expected {code}, {words}')
        bad = 1


for i, case in enumerate(cases):
    check(commands[i % len(commands)], *case)
check(commands[1], nan, "tensor 'token_embd.weight': value 0", 2)
sys.exit(bad)
