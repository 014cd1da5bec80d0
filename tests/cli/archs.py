# SPDX-License-Identifier: GPL-3.0-or-later
# Small GGUF files of many architectures with random weights: the logits of the program
# against those of tiny_gguf.py.  Usage: archs.py NMBENCH FOLDER [ARCHITECTURE..]
import json
import subprocess
import sys

import numpy as np

from tiny_gemma import Gemma, Streams
from tiny_gguf import Model, write, write_parts, write_rwkv

TOKENS = [3, 17, 42, 9, 60, 3, 25, 11, 33, 50, 7, 29]
H, V, FF, CONTEXT = 32, 64, 48, 64


class Maker:
    def __init__(self, seed, L=2):
        self.r, self.t, self.L = np.random.default_rng(seed), {}, L
        self.w('token_embd', V, H, size=1)

    def w(self, name, *shape, size=None, end='.weight', at=0):
        size = shape[-1]**-0.5 if size is None else size
        self.t[name + end] = (at + size * self.r.standard_normal(shape)).astype(np.float32)

    def norm(self, name, n=H, bias=False, *lead):
        self.w(name, *lead, n, size=0.2, at=1)
        if bias:
            self.w(name, *lead, n, size=0.2, end='.bias')

    def lin(self, name, n, k, bias=False):
        self.w(name, n, k)
        if bias:
            self.w(name, n, size=0.3, end='.bias')

    def layers(self):
        return [(i, f'blk.{i}.') for i in range(self.L)]

    def attention(self, b, heads=4, kv=2, dk=8, fused=False, bias=False, out_bias=None, qk=None, gate=False):
        if fused:
            self.lin(b + 'attn_qkv', (heads + 2 * kv) * dk, H, bias)
        else:
            for c, n in zip('qkv', (heads, kv, kv)):
                self.lin(b + 'attn_' + c, n * dk, H, bias)
        self.lin(b + 'attn_output', H, heads * dk, bias if out_bias is None else out_bias)
        if gate:
            self.lin(b + 'attn_gate', heads * dk, H)
        for c, n in zip('qk', (heads, kv)):
            if qk == 'each':
                self.norm(f'{b}attn_{c}_norm', dk, False, n)
            elif qk:
                self.norm(f'{b}attn_{c}_norm', dk if qk == 'head' else n * dk)

    def network(self, b, kind='split', bias=False, ff=FF, end=''):
        if kind == 'split':
            self.lin(b + 'ffn_gate' + end, ff, H, bias)
        self.lin(b + 'ffn_up' + end, ff * (2 if kind == 'fused' else 1), H, bias)
        self.lin(b + 'ffn_down' + end, H, ff, bias)

    def experts(self, b, E=6, ff=16, shared=0, bias=False, router_bias=False, select=False, shared_gate=False, kind='split'):
        self.lin(b + 'ffn_gate_inp', E, H, router_bias)
        for name, n, k in (('gate', ff, H), ('up', ff, H), ('down', H, ff))[kind == 'plain':]:
            self.w(f'{b}ffn_{name}_exps', E, n, k)
            if bias:
                self.w(f'{b}ffn_{name}_exps', E, n, size=0.3, end='.bias')
        if select:
            self.w(b + 'exp_probs_b', E, size=0.3, end='.bias')
        if shared:
            self.network(b, kind, ff=shared, end='_shexp')
        if shared_gate:
            self.w(b + 'ffn_gate_inp_shexp', H)

    def norms(self, b, names, bias=False):
        for name in names:
            self.norm(b + name, H, bias)

    def end(self, head=True, bias=False, head_bias=False):
        self.norm('output_norm', H, bias)
        if head:
            self.lin('output', V, H, head_bias)


def keys(arch, **more):
    """more: key without the architecture, "." as "__"."""
    k = {'context_length': CONTEXT, 'embedding_length': H, 'block_count': 2, 'feed_forward_length': FF,
         'attention.head_count': 4, 'attention.head_count_kv': 2, 'vocab_size': V}
    k.update({n.replace('__', '.'): v for n, v in more.items()})
    return {'general.architecture': arch, 'general.name': 'tiny ' + arch,
            **{f'{arch}.{n}': v for n, v in k.items() if v is not None}}


RMS = dict(attention__layer_norm_rms_epsilon=1e-3)  # large, so that another one shows
LN = dict(attention__layer_norm_epsilon=1e-3)


def plain(arch, rope='half', k=None, o=None, L=2, norm='rms', bias=False, attn=None, ffn=None, tied=False, head_bias=False,
          norms=('attn_norm', 'ffn_norm'), seed=1, norm_bias=None, rot=8, moe=None, dense=0):
    """Attention and a network in each layer; moe: experts from layer `dense` on."""
    m = Maker(seed, L)
    norm_bias = norm == 'layer' if norm_bias is None else norm_bias
    for i, b in m.layers():
        m.norms(b, norms, norm_bias)
        m.attention(b, bias=bias, **(attn or {}))
        if moe is not None and i >= dense:
            m.experts(b, **moe)
        else:
            m.network(b, **(ffn or {}))
    m.end(not tied, norm_bias, head_bias)
    if not norms:
        del m.t['output_norm.weight']
    options = dict(rope=rope, norm=norm, layers=L)
    options.update(o or {})
    base = dict(RMS if norm == 'rms' else LN, block_count=L)
    if rope:
        base['rope__dimension_count'] = rot
        options.setdefault('rot', rot)
    base.update(k or {})
    if moe is not None:
        base.setdefault('expert_count', moe.get('E', 6))
        base.setdefault('expert_used_count', 2)
    options.setdefault('kv', base.get('attention__head_count_kv', 2))
    return keys(arch, **base), m.t, options


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def add(name, *args, **kwargs):
    CASES[name] = lambda: plain(*args, **kwargs)


FREQS = np.linspace(1, 4, 4).astype(np.float32)


# ------------------------------------------------- attention and a gated network
add('llama', 'llama', 'adjacent')
add('llama-tied', 'llama', 'adjacent', tied=True, k=dict(rope__freq_base=5e5), o=dict(theta=5e5))
add('llama-moe', 'llama', 'adjacent', moe={})
add('llama-linear', 'llama', 'adjacent', k=dict(rope__scaling__type='linear', rope__scaling__factor=4.0), o=dict(linear=4))
add('llama-bias', 'llama', 'adjacent', bias=True)
add('llama-wide-heads', 'llama', 'adjacent', attn=dict(dk=16), rot=16, k=dict(attention__key_length=16, attention__value_length=16),
    o=dict(dk=16))


@case
def llama_scales():
    """Factors on the products of matrices, for all or for each expert (NVFP4 files, BitNet's)."""
    k, t, o = plain('llama', 'adjacent', moe={})
    r = np.random.default_rng(30)
    for n in list(t):
        if 'blk' in n and t[n].ndim > 1 and 'inp' not in n:
            t[n[:-7] + '.scale'] = (1 + 0.3 * r.standard_normal(6 if t[n].ndim == 3 else 1)).astype(np.float32)
    return k, t, o


@case
def llama_factor_alone():
    """A factor of no kind is a linear one."""
    return plain('llama', 'adjacent', k=dict(rope__scaling__factor=4.0), o=dict(linear=4))


@case
def llama_incomplete():
    return incomplete(*plain('llama', 'adjacent'), 'blk.1.ffn_norm.weight')


def incomplete(k, t, o, name):
    return k, {n: a for n, a in t.items() if n != name}, dict(o, all=t, lacks=name)


@case
def gemma2_incomplete():
    """The norm after attention is not that of the network."""
    return incomplete(*plain('gemma2', attn=dict(dk=16), rot=16, tied=True, norms=SANDWICH, L=4,
                             k=dict(GEMMA, attention__sliding_window=4), o=dict(dk=16)), 'blk.1.ffn_norm.weight')


@case
def bloom_incomplete():
    """The norm of embeddings is not that before the head."""
    k, t, o = bloom()
    return incomplete(k, t, o, 'output_norm.weight')


@case
def stablelm_incomplete():
    return incomplete(*plain('stablelm', norm='layer'), 'output_norm.bias')


@case
def llama_freqs():
    k, t, o = plain('llama', 'adjacent')
    t['rope_freqs.weight'] = FREQS
    return k, t, dict(o, freqs=FREQS)


@case
def llama_yarn():
    k, t, o = plain('llama', 'adjacent', k=dict(rope__scaling__type='yarn', rope__scaling__factor=8.0,
                                                rope__scaling__original_context_length=32))
    return k, t, dict(o, yarn=dict(factor=8, orig=32))


@case
def llama_experts_apart():
    """Files of early 2024 have a tensor for each expert."""
    k, t, o = plain('llama', 'adjacent', moe=dict(ff=FF))
    out = dict(t)
    for n in [n for n in t if '_exps' in n]:
        for e in range(6):
            out[n.replace('_exps', f'.{e}')] = out[n][e]
        del out[n]
    return k, out, dict(o, all=t)


def llama_alignment():
    k, t, o = plain('llama', 'adjacent')
    return dict(k, **{'general.alignment': 128}), t, o


CASES['llama-alignment'] = llama_alignment
add('llama-version-2', 'llama', 'adjacent', o=dict(version=2))
add('llama-parts', 'llama', 'adjacent', o=dict(parts=3))
add('llama-later-part', 'llama', 'adjacent', o=dict(parts=3, part=2))
add('mistral3', 'mistral3', 'adjacent', attn=dict(dk=16), rot=16, k=dict(attention__key_length=16, attention__value_length=16),
    o=dict(dk=16))
add('internlm2', 'internlm2', 'adjacent')
add('xverse', 'xverse', 'adjacent')
add('baichuan', 'baichuan', 'adjacent', attn=dict(kv=4), k=dict(attention__head_count_kv=4))
add('arcee', 'arcee', 'adjacent', ffn=dict(kind='plain'), o=dict(act='relu2'))
add('ernie4_5', 'ernie4_5', 'adjacent', tied=True)
add('ernie4_5-moe', 'ernie4_5-moe', 'adjacent', moe=dict(shared=32, select=True), dense=1, L=3,
    k=dict(expert_feed_forward_length=16, expert_shared_count=2, leading_dense_block_count=1, interleave_moe_layer_step=1))
add('smollm3', 'smollm3', 'adjacent', L=4, tied=True, o=dict(rope_on=lambda i: (i + 1) % 4 != 0))
add('qwen', 'qwen', bias=True, attn=dict(kv=4, fused=True, out_bias=False), k=dict(attention__head_count_kv=4, feed_forward_length=2 * FF))
add('qwen2', 'qwen2', bias=True, attn=dict(out_bias=False), k=dict(rope__freq_base=1e6), o=dict(theta=1e6))
add('qwen2moe', 'qwen2moe', bias=True, attn=dict(out_bias=False), moe=dict(shared=24, shared_gate=True), o=dict(renorm=False),
    k=dict(expert_feed_forward_length=16, expert_shared_feed_forward_length=24))
add('qwen3', 'qwen3', attn=dict(qk='head', dk=16), rot=16, k=dict(attention__key_length=16, attention__value_length=16), o=dict(dk=16))
add('qwen3moe', 'qwen3moe', attn=dict(qk='head'), moe={}, k=dict(expert_feed_forward_length=16))
add('qwen2vl', 'qwen2vl', bias=True, attn=dict(out_bias=False), k=dict(rope__freq_base=1e6, rope__dimension_sections=[1, 1, 2, 0]),
    o=dict(theta=1e6))
add('qwen3vl', 'qwen3vl', attn=dict(qk='head', dk=16), rot=16, o=dict(dk=16),
    k=dict(attention__key_length=16, attention__value_length=16, rope__dimension_sections=[4, 2, 2, 0], n_deepstack_layers=3))
add('qwen3vlmoe', 'qwen3vlmoe', attn=dict(qk='head'), moe={},
    k=dict(expert_feed_forward_length=16, rope__dimension_sections=[2, 1, 1, 0], n_deepstack_layers=3))
add('seed_oss', 'seed_oss', bias=True, attn=dict(out_bias=False), norms=('attn_norm', 'post_attention_norm'))
add('exaone', 'exaone')
add('plamo', 'plamo', norms=('attn_norm',), o=dict(place='parallel'))
add('jais', 'jais', None, norm='layer', bias=True, attn=dict(kv=4, fused=True), o=dict(alibi=True, by_width=True, kv=4),
    k=dict(attention__head_count_kv=None, attention__max_alibi_bias=8.0))


@case
def openelm():
    m, heads, kv, ff = Maker(20, 3), [4, 4, 8], [1, 2, 2], [24, 32, 48]
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        m.attention(b, heads[i], kv[i], fused=True, qk='head')
        m.network(b, ff=ff[i])
    m.end(False)
    return (keys('openelm', **RMS, block_count=3, attention__head_count=heads, attention__head_count_kv=kv, feed_forward_length=ff,
                 attention__key_length=8, attention__value_length=8, rope__dimension_count=8), m.t, dict(layers=3, heads=heads, kv=kv))


add('orion', 'orion', norm='layer')
add('olmo', 'olmo', 'adjacent', norm='unit', norms=(), k=dict(attention__clamp_kqv=0.7), o=dict(clip=0.7))
add('olmo2', 'olmo2', attn=dict(qk='full'), norms=('post_attention_norm', 'post_ffw_norm'), o=dict(place='post'))
add('olmo3', 'olmo2', attn=dict(qk='full'), norms=('post_attention_norm', 'post_ffw_norm'), L=4,
    k=dict(attention__sliding_window=4, rope__freq_base=5e5, rope__scaling__type='yarn', rope__scaling__factor=8.0,
           rope__scaling__original_context_length=32),
    o=dict(place='post', window=4, is_window=lambda i: i % 4 != 3, theta=5e5, yarn=dict(factor=8, orig=32), full_scaling=True))
add('mellum', 'mellum', attn=dict(qk='head'), moe={}, L=4,
    k=dict(expert_feed_forward_length=16, attention__sliding_window=4, rope__scaling__type='yarn', rope__scaling__factor=8.0,
           rope__scaling__original_context_length=32),
    o=dict(window=4, is_window=lambda i: i % 4 != 3, yarn=dict(factor=8, orig=32), full_scaling=True))
add('hy_v3', 'hy_v3', attn=dict(qk='head'), moe=dict(shared=24, select=True), dense=1, L=3, o=dict(score='sigmoid', route=2.5),
    k=dict(expert_feed_forward_length=16, expert_shared_feed_forward_length=24, expert_weights_norm=True, expert_weights_scale=2.5,
           expert_gating_func=2, leading_dense_block_count=1, expert_shared_count=1))
add('maincoder', 'maincoder', 'adjacent', attn=dict(qk='head'), tied=True, o=dict(before_rope=False))
add('pangu-embedded', 'pangu-embedded', bias=True)
add('cogvlm', 'cogvlm', attn=dict(fused=True))
add('paddleocr', 'paddleocr', k=dict(rope__dimension_sections=[1, 1, 2, 0]))
add('hunyuan_vl', 'hunyuan_vl', attn=dict(qk='head'), tied=True, o=dict(before_rope=False, theta=1e4 * 1000**(8 / 6)),
    k=dict(attention__key_length=8, attention__value_length=8, rope__scaling__alpha=1000.0, rope__dimension_sections=[1, 1, 1, 1]))
add('jais2', 'jais2', norm='layer', bias=True, ffn=dict(kind='plain', bias=True), o=dict(act='relu2'))
add('afmoe', 'afmoe', attn=dict(qk='head', gate=True), norms=('attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'), L=4, dense=1,
    moe=dict(shared=32, select=True),
    k=dict(expert_feed_forward_length=16, expert_shared_count=2, expert_weights_norm=True, expert_weights_scale=2.826,
           expert_gating_func=2, leading_dense_block_count=1, attention__sliding_window=4),
    o=dict(place='sandwich', score='sigmoid', route=2.826, embed=H**0.5, gated=True, window=4, is_window=lambda i: i % 4 != 3,
           rope_on=lambda i: i % 4 != 3))
add('exaone-moe', 'exaone-moe', attn=dict(qk='head'), L=4, dense=1, moe=dict(shared=16, select=True),
    k=dict(expert_feed_forward_length=16, expert_shared_count=1, expert_weights_norm=True, expert_weights_scale=2.5,
           expert_gating_func=2, leading_dense_block_count=1, attention__sliding_window=4),
    o=dict(score='sigmoid', route=2.5, window=4, is_window=lambda i: i % 4 != 3, rope_on=lambda i: i % 4 != 3))
add('plamo3', 'plamo3', attn=dict(qk='head', fused=True), L=4, tied=True,
    norms=('attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'),
    k=dict(attention__sliding_window=4, attention__sliding_window_pattern=2, rope__freq_base=1e6, rope__freq_base_swa=1e4),
    o=dict(place='sandwich', window=4, is_window=lambda i: i % 2 == 0, theta=1e6, theta_window=1e4))
add('minicpm-old', 'minicpm', 'adjacent', tied=True, o=dict(embed=12, residual=1.4 / 2**0.5, logits=256 / H))
add('granite-nope', 'granite', None, tied=True, rot=8,
    k=dict(attention__scale=0.2, embedding_scale=6.0, residual_scale=0.0, logit_scale=4.0, rope__scaling__finetuned=False),
    o=dict(scale=0.2, embed=6, logits=0.25))
add('olmoe', 'olmoe', attn=dict(qk='full', kv=4), moe={}, o=dict(renorm=False), k=dict(attention__head_count_kv=4))
add('granite', 'granite', 'adjacent', tied=True,
    k=dict(attention__scale=0.2, embedding_scale=6.0, residual_scale=0.3, logit_scale=4.0),
    o=dict(scale=0.2, embed=6, residual=0.3, logits=0.25))
add('granitemoe', 'granitemoe', 'adjacent', moe=dict(shared=24), o=dict(scale=0.2, embed=6, residual=0.3, logits=0.25, score='chosen'),
    k=dict(attention__scale=0.2, embedding_scale=6.0, residual_scale=0.3, logit_scale=4.0, expert_shared_feed_forward_length=24))
add('minicpm', 'minicpm', 'adjacent', tied=True, k=dict(embedding_scale=6.0, residual_scale=0.3, logit_scale=4.0),
    o=dict(embed=6, residual=0.3, logits=0.25))
add('hunyuan-dense', 'hunyuan-dense', attn=dict(qk='head'), tied=True, o=dict(before_rope=False))
add('hunyuan-moe', 'hunyuan-moe', attn=dict(qk='head'), moe=dict(shared=24), o=dict(before_rope=False),
    k=dict(expert_feed_forward_length=16, expert_shared_feed_forward_length=24))
add('deepseek', 'deepseek', 'adjacent', attn=dict(kv=4), moe=dict(shared=32), dense=1, L=3, o=dict(renorm=False),
    k=dict(attention__head_count_kv=4, expert_feed_forward_length=16, expert_shared_count=2, leading_dense_block_count=1,
           expert_weights_scale=1.0))
add('bailingmoe', 'bailingmoe', 'adjacent', moe=dict(shared=32),
    k=dict(expert_feed_forward_length=16, expert_shared_count=2, expert_weights_norm=True, expert_weights_scale=1.0,
           leading_dense_block_count=0))
add('bailingmoe2', 'bailingmoe2', attn=dict(qk='head', fused=True), moe=dict(shared=16, select=True, E=8), dense=1, L=3,
    o=dict(score='sigmoid', route=2.5, groups=4, keep=2),
    k=dict(expert_feed_forward_length=16, expert_shared_count=1, expert_shared_feed_forward_length=16, expert_weights_norm=True,
           expert_weights_scale=2.5, expert_gating_func=2, leading_dense_block_count=1, expert_group_count=4,
           expert_group_used_count=2))
add('dots1', 'dots1', attn=dict(qk='head', kv=4), moe=dict(shared=32, select=True), dense=1, L=3, o=dict(score='sigmoid', route=2.5),
    k=dict(attention__head_count_kv=4, expert_feed_forward_length=16, expert_shared_count=2, expert_weights_norm=True,
           expert_weights_scale=2.5, expert_gating_func=2, leading_dense_block_count=1))
add('glm4moe', 'glm4moe', bias=True, attn=dict(qk='head', out_bias=False), rot=4, moe=dict(shared=16, select=True), dense=1, L=3,
    norms=('attn_norm', 'post_attention_norm'), o=dict(score='sigmoid', route=1.5),
    k=dict(expert_feed_forward_length=16, expert_shared_count=1, expert_weights_norm=True, expert_weights_scale=1.5,
           expert_gating_func=2, leading_dense_block_count=1))
@case
def glm4moe_nextn():
    """A layer that predicts the token after the next one counts as a layer, and is not evaluated."""
    k, t, o = CASES['glm4moe']()
    more = {n.replace('blk.2.', 'blk.3.'): v for n, v in t.items() if n.startswith('blk.2.')}
    m = Maker(21)
    m.lin('blk.3.nextn.eh_proj', H, 2 * H)
    m.norms('blk.3.nextn.', ('enorm', 'hnorm', 'shared_head_norm'))
    more.update({n: v for n, v in m.t.items() if 'nextn' in n})
    return dict(k, **{'glm4moe.block_count': 4, 'glm4moe.nextn_predict_layers': 1}), {**t, **more}, o


add('minimax-m2', 'minimax-m2', attn=dict(qk='full'), rot=4, moe=dict(select=True), o=dict(score='sigmoid'),
    k=dict(expert_feed_forward_length=16, expert_gating_func=2))
add('bitnet', 'bitnet', norms=('attn_norm', 'ffn_norm', 'attn_sub_norm'), tied=True)


@case
def bitnet():
    k, t, o = plain('bitnet', norms=('attn_norm', 'ffn_norm', 'attn_sub_norm'), tied=True)
    m = Maker(5)
    for _, b in m.layers():
        m.norm(b + 'ffn_sub_norm', FF)
    t.update({n: v for n, v in m.t.items() if 'sub' in n})
    return k, t, o


# ----------------------------------------------------------------- norms elsewhere
SANDWICH = ('attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm')
GEMMA = dict(attention__key_length=16, attention__value_length=16)
add('gemma', 'gemma', attn=dict(dk=16), rot=16, tied=True, k=GEMMA, o=dict(dk=16, act='gelu-tanh', embed=H**0.5))
add('gemma3-period', 'gemma3', attn=dict(dk=16, qk='head'), rot=16, tied=True, norms=SANDWICH, L=4,
    k=dict(GEMMA, attention__sliding_window=4, attention__sliding_window_pattern=3, rope__freq_base_swa=2e4, rope__freq_base=1e6),
    o=dict(dk=16, act='gelu-tanh', embed=H**0.5, place='sandwich', window=4, is_window=lambda i: i % 3 != 2, theta=1e6, theta_window=2e4))
add('gemma3-list', 'gemma3', attn=dict(dk=16, qk='head'), rot=16, tied=True, norms=SANDWICH, L=4,
    k=dict(GEMMA, attention__sliding_window=4, attention__sliding_window_pattern=[True, False, False, True], rope__freq_base=1e6),
    o=dict(dk=16, act='gelu-tanh', embed=H**0.5, place='sandwich', window=4, is_window=lambda i: i % 3 == 0, theta=1e6, theta_window=1e4))
add('gemma2', 'gemma2', attn=dict(dk=16), rot=16, tied=True, norms=SANDWICH, L=4,
    k=dict(GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=3.0, attention__sliding_window=4),
    o=dict(dk=16, act='gelu-tanh', embed=H**0.5, place='sandwich', cap=5, logit_cap=3, window=4, is_window=lambda i: i % 2 == 0))
add('gemma3', 'gemma3', attn=dict(dk=16, qk='head'), rot=16, tied=True, norms=SANDWICH, L=7,
    k=dict(GEMMA, rope__freq_base=1e6, attention__sliding_window=4, rope__scaling__type='linear', rope__scaling__factor=8.0),
    o=dict(dk=16, act='gelu-tanh', embed=H**0.5, place='sandwich', window=4, is_window=lambda i: i % 6 != 5, theta=1e6,
           theta_window=1e4, linear=8))
add('exaone4', 'exaone4', attn=dict(qk='head'), norms=('post_attention_norm', 'post_ffw_norm'), L=4,
    k=dict(attention__sliding_window=4), o=dict(place='post', window=4, is_window=lambda i: i % 4 != 3, rope_on=lambda i: i % 4 != 3))
add('glm4', 'glm4', 'adjacent', bias=True, attn=dict(out_bias=False), rot=4, ffn=dict(kind='fused'), norms=SANDWICH,
    o=dict(place='sandwich'))
add('command-r', 'command-r', 'adjacent', norm='layer', norm_bias=False, norms=('attn_norm',), tied=True,
    k=dict(logit_scale=0.25), o=dict(place='parallel', logits=0.25))
add('command-r-plus', 'command-r', 'adjacent', norm='layer', norm_bias=False, norms=('attn_norm',), tied=True, attn=dict(qk='each'),
    k=dict(logit_scale=0.25), o=dict(place='parallel', logits=0.25))
add('cohere2', 'cohere2', 'adjacent', norm='layer', norm_bias=False, norms=('attn_norm',), tied=True, L=4,
    k=dict(logit_scale=0.25, attention__sliding_window=4),
    o=dict(place='parallel', logits=0.25, window=4, is_window=lambda i: i % 4 != 3, rope_on=lambda i: i % 4 != 3))
add('grok', 'grok', attn=dict(kv=2), norms=('attn_norm', 'attn_output_norm', 'ffn_norm', 'layer_output_norm'), moe=dict(ff=FF),
    tied=True, o=dict(place='sandwich', embed=78.38367176906169, logits=0.5773502691896257, cap=30, act='gelu-tanh', renorm=False,
                      scale=0.08838834764831845),
    k=dict(expert_feed_forward_length=FF, embedding_scale=78.38367176906169, logit_scale=0.5773502691896257,
           attn_logit_softcapping=30.0, attention__output_scale=0.08838834764831845))

add('grok-old', 'grok', attn=dict(kv=2), norms=('attn_norm', 'attn_output_norm', 'ffn_norm', 'layer_output_norm'), moe=dict(ff=FF),
    tied=True, o=dict(place='sandwich', embed=78.38367176906169, logits=0.5773502691896257, cap=30, act='gelu-tanh', renorm=False,
                      scale=0.08838834764831845))


@case
def grok_2():
    """A network beside the experts."""
    k, t, o = plain('grok', attn=dict(kv=2), norms=('attn_norm', 'attn_output_norm', 'ffn_norm', 'post_ffw_norm'), moe={},
                    k=dict(expert_feed_forward_length=16, embedding_scale=90.5, logit_scale=0.25, attn_logit_softcapping=30.0,
                           router_logit_softcapping=2.0, attention__output_scale=0.125, final_logit_softcapping=50.0),
                    o=dict(place='sandwich', embed=90.5, logits=0.25, cap=30, logit_cap=50, act='gelu-tanh', renorm=False, scale=0.125,
                           beside=True, router_cap=2))
    m = Maker(31)
    for _, b in m.layers():
        m.network(b)
    t.update({n: v for n, v in m.t.items() if 'ffn' in n})
    return k, t, o


@case
def mimo2():
    m, kv = Maker(32, 4), [2, 4, 4, 2]
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        for c, n, d in (('q', 4, 12), ('k', kv[i], 12), ('v', kv[i], 8)):
            m.lin(b + 'attn_' + c, n * d, H)
        m.lin(b + 'attn_output', H, 4 * 8)
        if kv[i] == 4:
            m.w(b + 'attn_sinks', 4, size=1)
        if i:
            m.experts(b, select=True)
        else:
            m.network(b)
    m.end()
    return (keys('mimo2', **RMS, block_count=4, attention__head_count_kv=kv, attention__key_length=12, attention__value_length=8,
                 rope__dimension_count=4, rope__freq_base=5e6, rope__freq_base_swa=1e4, attention__sliding_window=4,
                 attention__sliding_window_pattern=[False, True, True, False], attention__value_scale=0.707, expert_count=6,
                 expert_used_count=2, expert_feed_forward_length=16, expert_gating_func=2, leading_dense_block_count=1), m.t,
            dict(layers=4, kv=kv, dk=12, dv=8, rot=4, theta=5e6, theta_window=1e4, window=4, is_window=lambda i: kv[i] == 4,
                 score='sigmoid', v_scale=0.707))


@case
def deci():
    m, heads, kv, ff = Maker(33, 4), [4, 4, 0, 4], [2, 1, 0, 4], [48, 24, 32, 0]
    for i, b in m.layers():
        if heads[i]:
            m.norm(b + 'attn_norm')
            m.attention(b, heads[i], kv[i])
        if ff[i]:
            m.norm(b + 'ffn_norm')
            m.network(b, ff=ff[i])
    m.end()
    return (keys('deci', **RMS, block_count=4, attention__head_count=heads, attention__head_count_kv=kv, feed_forward_length=ff,
                 rope__dimension_count=8, attention__key_length=8, attention__value_length=8), m.t,
            dict(layers=4, rope='adjacent', kv=kv, missing=True))


# --------------------------------------------------- plain networks, LayerNorm, biases
PLAIN = dict(kind='plain', bias=True)


def positions(k, t, o):
    t['position_embd.weight'] = np.random.default_rng(9).standard_normal((CONTEXT, H)).astype(np.float32)
    return k, t, o


@case
def gpt2():
    return positions(*plain('gpt2', None, norm='layer', bias=True, attn=dict(kv=4, fused=True), ffn=PLAIN, tied=True,
                            k=dict(attention__head_count_kv=None), o=dict(act='gelu-tanh', kv=4)))


@case
def starcoder():
    return positions(*plain('starcoder', None, norm='layer', bias=True, attn=dict(kv=1, fused=True), ffn=PLAIN,
                            k=dict(attention__head_count_kv=1), o=dict(act='gelu-tanh')))


add('starcoder2', 'starcoder2', norm='layer', bias=True, ffn=PLAIN, o=dict(act='gelu-tanh'))
add('gptneox', 'gptneox', norm='layer', bias=True, attn=dict(kv=4, fused=True), ffn=PLAIN, rot=4,
    k=dict(attention__head_count_kv=None, use_parallel_residual=True), o=dict(act='gelu', place='parallel', kv=4))
add('gptneox-serial', 'gptneox', norm='layer', bias=True, attn=dict(kv=4, fused=True), ffn=PLAIN, rot=4,
    k=dict(attention__head_count_kv=None, use_parallel_residual=False), o=dict(act='gelu', kv=4))
add('falcon', 'falcon', norm='layer', attn=dict(kv=1, fused=True), ffn=dict(kind='plain'), norms=('attn_norm',),
    k=dict(attention__head_count_kv=1), o=dict(act='gelu', place='parallel'))
add('falcon-new', 'falcon', norm='layer', attn=dict(kv=2, fused=True), ffn=dict(kind='plain'), norms=('attn_norm', 'attn_norm_2'),
    k=dict(attention__head_count_kv=2), o=dict(act='gelu', place='parallel'))
add('phi2', 'phi2', norm='layer', bias=True, attn=dict(kv=4), ffn=PLAIN, rot=4, norms=('attn_norm',), head_bias=True,
    k=dict(attention__head_count_kv=4), o=dict(act='gelu-tanh', place='parallel'))
add('phi2-fused', 'phi2', norm='layer', bias=True, attn=dict(kv=4, fused=True), ffn=PLAIN, rot=4, norms=('attn_norm',), head_bias=True,
    k=dict(attention__head_count_kv=4), o=dict(act='gelu-tanh', place='parallel'))
add('phi3', 'phi3', attn=dict(fused=True), ffn=dict(kind='fused'), k=dict(attention__sliding_window=2047))
add('phimoe', 'phimoe', norm='layer', bias=True, moe={}, head_bias=True, o=dict(sparsemixer=True))
add('stablelm', 'stablelm', norm='layer', rot=4, bias=True, attn=dict(out_bias=False), k=dict(use_parallel_residual=False))
add('stablelm2-12b', 'stablelm', norm='layer', rot=4, norms=('attn_norm',), attn=dict(qk='each'),
    k=dict(use_parallel_residual=True), o=dict(place='parallel'))
add('nemotron', 'nemotron', norm='layer', rot=4, ffn=dict(kind='plain'), o=dict(act='relu2'))
add('codeshell', 'codeshell', norm='layer', bias=True, attn=dict(fused=True), ffn=PLAIN, o=dict(act='gelu-tanh'))
add('mpt', 'mpt', None, norm='layer', norm_bias=False, attn=dict(kv=4, fused=True), ffn=dict(kind='plain'), tied=True,
    k=dict(attention__head_count_kv=None, attention__max_alibi_bias=8.0), o=dict(alibi=True, act='gelu', kv=4))
add('mpt-clip', 'mpt', None, norm='layer', norm_bias=False, attn=dict(kv=4, fused=True), ffn=dict(kind='plain'), tied=True,
    k=dict(attention__head_count_kv=None, attention__max_alibi_bias=8.0, attention__clamp_kqv=0.5),
    o=dict(alibi=True, act='gelu', kv=4, clip=0.5))
add('refact', 'refact', None, attn=dict(kv=1), k=dict(attention__head_count_kv=1), o=dict(alibi=True))
add('chatglm', 'chatglm', 'adjacent', bias=True, attn=dict(fused=True, out_bias=False), ffn=dict(kind='fused'), rot=4)
add('dbrx', 'dbrx', norm='layer', norm_bias=False, attn=dict(fused=True), norms=('attn_norm', 'attn_output_norm'), moe={},
    k=dict(attention__clamp_kqv=0.7), o=dict(clip=0.7))


@case
def bloom():
    k, t, o = plain('bloom', None, norm='layer', bias=True, attn=dict(kv=4, fused=True), ffn=PLAIN, tied=True,
                    k=dict(attention__head_count_kv=None), o=dict(alibi=True, act='gelu-tanh', kv=4))
    m = Maker(6)
    m.norm('token_embd_norm', H, True)
    t.update({n: v for n, v in m.t.items() if 'norm' in n})
    return k, t, o


# -------------------------------------------------------------- experts and sinks
@case
def gpt_oss():
    k, t, o = plain('gpt-oss', bias=True, norms=('attn_norm', 'post_attention_norm'), moe=dict(bias=True, router_bias=True), L=4,
                    k=dict(expert_feed_forward_length=16, attention__sliding_window=4, rope__freq_base=150000.0,
                           rope__scaling__type='yarn', rope__scaling__factor=32.0, rope__scaling__original_context_length=40),
                    o=dict(act='oai', limit=7, score='chosen', window=4, is_window=lambda i: i % 2 == 0, theta=150000,
                           yarn=dict(factor=32, orig=40, truncate=False)))
    for i in range(4):
        t[f'blk.{i}.attn_sinks.weight'] = np.random.default_rng(i).standard_normal(4).astype(np.float32)
    return k, t, o


@case
def llama4():
    return plain('llama4', 'adjacent', L=4, moe=dict(shared=16), attn={},
                 k=dict(expert_feed_forward_length=16, expert_used_count=1, interleave_moe_layer_step=1,
                        rope__freq_base=5e5, attention__key_length=8, attention__value_length=8),
                 o=dict(topk=1, score='sigmoid', renorm=False, route_input=True, theta=5e5, before_rope=False, unit_qk=True,
                        rope_on=lambda i: i % 4 != 3,
                        stretch=lambda i, p: 1 if i % 4 != 3 else 1 + 0.1 * np.log(1 + np.floor((p + 1) / 8192))))


@case
def llama4_mobile():
    """MobileLLM: no chunks and no experts."""
    return plain('llama4', 'adjacent', L=4,
                 k=dict(attention__sliding_window=0, interleave_moe_layer_step=1, attention__key_length=8, attention__value_length=8),
                 o=dict(before_rope=False, unit_qk=True))


def latent(split, q_rank, v3=False, arch='deepseek2'):
    m = Maker(3, 3)
    heads, nope, rot, dv, rank = 4, 8, 4, 6, 12
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        if q_rank:
            m.lin(b + 'attn_q_a', q_rank, H)
            m.norm(b + 'attn_q_a_norm', q_rank)
            m.lin(b + 'attn_q_b', heads * (nope + rot), q_rank)
        else:
            m.lin(b + 'attn_q', heads * (nope + rot), H)
        m.lin(b + 'attn_kv_a_mqa', rank + rot, H)
        m.norm(b + 'attn_kv_a_norm', rank)
        if split:
            m.w(b + 'attn_k_b', heads, rank, nope, size=rank**-0.5)
            m.w(b + 'attn_v_b', heads, dv, rank)
        else:
            m.lin(b + 'attn_kv_b', heads * (nope + dv), rank)
        m.lin(b + 'attn_output', H, heads * dv)
        if i:
            m.experts(b, E=8, shared=32, select=v3)
        else:
            m.network(b)
    m.end()
    k = dict(RMS, block_count=3, attention__kv_lora_rank=rank, rope__dimension_count=rot, leading_dense_block_count=1,
             expert_count=8, expert_used_count=2, expert_feed_forward_length=16, expert_shared_count=2,
             attention__q_lora_rank=q_rank or None)
    if split:
        k.update(attention__head_count_kv=1, attention__key_length=rank + rot, attention__value_length=rank,
                 attention__key_length_mla=nope + rot, attention__value_length_mla=dv)
    else:
        k.update(attention__head_count_kv=heads, attention__key_length=nope + rot, attention__value_length=dv)
    o = dict(layers=3, rope='adjacent', mla=dict(nope=nope, rot=rot, dv=dv, rank=rank), renorm=False, topk=2)
    if v3:
        k.update(expert_gating_func=2, expert_weights_norm=True, expert_weights_scale=2.5, expert_group_count=4,
                 expert_group_used_count=2)
        o.update(score='sigmoid', renorm=True, route=2.5, groups=4, keep=2)
    else:
        k.update(expert_weights_scale=1.0)
        o.update(route=1)
    return keys(arch, **k), m.t, o


def sparse(arch, shared):
    k, t, o = latent(True, 10, True, arch=arch)
    m = Maker(52, 3)
    for i, b in m.layers():
        if i == 1 and shared:
            continue
        m.lin(b + 'indexer.attn_q_b', 2 * 8, 10)
        m.lin(b + 'indexer.attn_k', 8, H)
        m.norm(b + 'indexer.k_norm', 8, True)
        m.lin(b + 'indexer.proj', 2, H)
    t.update({n: v for n, v in m.t.items() if 'indexer' in n})
    k.update({arch + '.attention.indexer.head_count': 2, arch + '.attention.indexer.key_length': 8, arch + '.attention.indexer.top_k': 4})
    return k, t, dict(o, index=(2, 8, 4), index_adjacent=arch == 'glm-dsa')


CASES['deepseek32'] = lambda: sparse('deepseek32', False)
CASES['glm-dsa'] = lambda: sparse('glm-dsa', True)


@case
def minicpm3():
    k, t, o = latent(False, 10, arch='minicpm3')
    dense = latent_dense(t)
    for n in list(k):
        if 'expert' in n or 'leading' in n:
            del k[n]
    return k, dense, dict(o, rope='half', embed=12, residual=1.4 / 3**0.5, logits=256 / H)


def latent_dense(t):
    """The same tensors with a network in every layer."""
    m, out = Maker(19, 3), {n: v for n, v in t.items() if 'ffn' not in n and 'exp' not in n}
    for _, b in m.layers():
        m.norm(b + 'ffn_norm')
        m.network(b)
    out.update({n: v for n, v in m.t.items() if 'ffn' in n})
    return out


@case
def plm():
    k, t, o = latent(False, 0, arch='plm')
    for n in list(k):
        if 'expert' in n or 'leading' in n:
            del k[n]
    t = {n: v for n, v in latent_dense(t).items() if 'gate' not in n and n != 'output.weight'}
    return k, t, dict(o, act='relu2')


CASES['deepseek2-lite'] = lambda: latent(False, 0)
CASES['deepseek2-split'] = lambda: latent(True, 10)
CASES['deepseek2-v3'] = lambda: latent(True, 10, True)
CASES['deepseek2-v3-whole'] = lambda: latent(False, 10, True)


@case
def deepseek2_yarn():
    k, t, o = latent(True, 10)
    k.update({'deepseek2.rope.scaling.type': 'yarn', 'deepseek2.rope.scaling.factor': 40.0,
              'deepseek2.rope.scaling.original_context_length': 32,
              'deepseek2.rope.scaling.yarn_log_multiplier': 0.0707})
    m = 0.1 * 0.707 * np.log(40) + 1
    return k, t, dict(o, yarn=dict(factor=40, orig=32, size=1), scale=12**-0.5 * m * m)


# ------------------------------------------------------------------- state mixers
def mamba_part(m, b, di=64, n=4, rank=2, taps=4, inner=False):
    m.lin(b + 'ssm_in', 2 * di, H)
    m.w(b + 'ssm_conv1d', di, taps)
    m.w(b + 'ssm_conv1d', di, size=0.2, end='.bias')
    m.lin(b + 'ssm_x', rank + 2 * n, di)
    m.lin(b + 'ssm_dt', di, rank, True)
    m.t[b + 'ssm_a'] = -np.exp(m.r.standard_normal((di, n)) * 0.5).astype(np.float32)
    m.w(b + 'ssm_d', di, size=0.3, end='', at=1)
    m.lin(b + 'ssm_out', H, di)
    if inner:
        for name, k in (('dt', rank), ('b', n), ('c', n)):
            m.norm(f'{b}ssm_{name}_norm', k)


def ssd_part(m, b, di=64, n=8, g=2, heads=8, taps=4, norm=True):
    m.lin(b + 'ssm_in', 2 * di + 2 * g * n + heads, H)
    m.w(b + 'ssm_conv1d', di + 2 * g * n, taps)
    m.w(b + 'ssm_conv1d', di + 2 * g * n, size=0.2, end='.bias')
    m.w(b + 'ssm_dt', heads, size=0.3, end='.bias')
    m.t[b + 'ssm_a'] = -np.exp(m.r.standard_normal((heads, 1)) * 0.5).astype(np.float32)
    m.w(b + 'ssm_d', heads, 1, size=0.3, end='', at=1)
    if norm:
        m.norm(b + 'ssm_norm', di // g, False, g)
    m.lin(b + 'ssm_out', H, di)


SSM = dict(ssm__conv_kernel=4, ssm__inner_size=64, ssm__state_size=4, ssm__time_step_rank=2)
SSD = dict(ssm__conv_kernel=4, ssm__inner_size=64, ssm__state_size=8, ssm__time_step_rank=8, ssm__group_count=2)


@case
def mamba():
    m = Maker(7)
    for i, b in m.layers():
        m.norm(b + 'attn_norm')
        mamba_part(m, b)
    m.end(False)
    return keys('mamba', **RMS, **SSM, feed_forward_length=0, attention__head_count=0, attention__head_count_kv=None), m.t, {}


@case
def mamba_unit():
    k, t, o = CASES['mamba']()
    return dict(k, **{'mamba.ssm.dt_b_c_rms': True}), t, dict(o, unit_inner=True)


@case
def mamba2():
    m = Maker(8)
    for i, b in m.layers():
        m.norm(b + 'attn_norm')
        ssd_part(m, b)
    m.end(False)
    return (keys('mamba2', **RMS, **SSD, feed_forward_length=0, attention__head_count=0, attention__head_count_kv=None), m.t,
            dict(inner=64, state=8, mix_groups=2))


@case
def jamba():
    m = Maker(9, 4)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        if i == 2:
            m.attention(b)
        else:
            mamba_part(m, b, inner=True)
        if i % 2:
            m.experts(b, ff=FF)
        else:
            m.network(b)
    m.end()
    return (keys('jamba', **RMS, **SSM, block_count=4, attention__head_count_kv=[0, 0, 2, 0], expert_count=6, expert_used_count=2),
            m.t, dict(layers=4, rope=None, renorm=False))


@case
def granitehybrid():
    m = Maker(10, 4)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        if i == 2:
            m.attention(b)
        else:
            ssd_part(m, b)
        m.experts(b, shared=24)
    m.end(False)
    return (keys('granitehybrid', **RMS, **SSD, block_count=4, attention__head_count_kv=[0, 0, 2, 0], expert_count=6,
                 expert_used_count=2, expert_shared_feed_forward_length=24, rope__dimension_count=8, attention__scale=0.2,
                 embedding_scale=6.0, residual_scale=0.3, logit_scale=4.0, rope__scaling__finetuned=False), m.t,
            dict(layers=4, rope=None, score='chosen', scale=0.2, embed=6, residual=0.3, logits=0.25, inner=64, state=8,
                 mix_groups=2))


def falcon_h1(norm):
    m = Maker(14)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        ssd_part(m, b, norm=norm)
        m.attention(b)
        m.network(b)
    m.end()
    return keys('falcon-h1', **RMS, **SSD, rope__dimension_count=8, rope__freq_base=1e11), m.t, dict(
        theta=1e11, inner=64, state=8, mix_groups=2)


CASES['falcon-h1'] = lambda: falcon_h1(False)
CASES['falcon-h1-norm'] = lambda: falcon_h1(True)


@case
def nemotron_h():
    m, kinds = Maker(15, 4), 'M-*-'
    for i, b in m.layers():
        m.norm(b + 'attn_norm')
        if kinds[i] == 'M':
            ssd_part(m, b)
        elif kinds[i] == '*':
            m.attention(b)
        else:
            m.network(b, 'plain')
    m.end()
    return (keys('nemotron_h', **RMS, **SSD, block_count=4, attention__head_count_kv=[0, 0, 2, 0], feed_forward_length=[0, FF, 0, FF],
                 attention__key_length=8, attention__value_length=8), m.t,
            dict(layers=4, rope=None, alone=True, act='relu2', inner=64, state=8, mix_groups=2))


@case
def nemotron_h_moe():
    m, kinds = Maker(16, 4), 'ME*E'
    for i, b in m.layers():
        m.norm(b + 'attn_norm')
        if kinds[i] == 'M':
            ssd_part(m, b)
        elif kinds[i] == '*':
            m.attention(b)
        else:
            m.experts(b, kind='plain', shared=24, select=True, E=8)
    m.end()
    return (keys('nemotron_h_moe', **RMS, **SSD, block_count=4, attention__head_count_kv=[0, 0, 2, 0], feed_forward_length=[0, FF, 0, FF],
                 attention__key_length=8, attention__value_length=8, expert_count=8, expert_used_count=2, expert_shared_count=1,
                 expert_feed_forward_length=16, expert_shared_feed_forward_length=24, expert_weights_norm=True, expert_weights_scale=2.5,
                 expert_group_count=1, expert_group_used_count=1, expert_gating_func=2), m.t,
            dict(layers=4, rope=None, alone=True, act='relu2', inner=64, state=8, mix_groups=2, score='sigmoid', route=2.5))


def delta_part(m, b, split, arch, G=2, n=4, d=8, taps=4):
    if split:
        m.lin(b + 'attn_qkv', (2 * G + n) * d, H)
        m.lin(b + 'attn_gate', n * d, H)
    else:
        m.lin(b + 'ssm_in', 2 * (G + n) * d, H)
    if arch == 'qwen3next':
        m.lin(b + 'ssm_ba', 2 * n, H)
    else:
        m.lin(b + 'ssm_beta', n, H)
        m.lin(b + 'ssm_alpha', n, H)
    m.w(b + 'ssm_conv1d', (2 * G + n) * d, taps)
    m.w(b + 'ssm_dt', n, size=0.3, end='.bias')
    m.t[b + 'ssm_a'] = -np.exp(m.r.standard_normal(n) * 0.5).astype(np.float32)
    m.norm(b + 'ssm_norm', d)
    m.lin(b + 'ssm_out', H, n * d)


def qwen_delta(arch, split, moe=True):
    m = Maker(17, 4)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'post_attention_norm'))
        if i == 3:
            m.attention(b, dk=16, qk='head')
            m.lin(b + 'attn_q', 4 * 2 * 16, H)
        else:
            delta_part(m, b, split, arch)
        if moe:
            m.experts(b, shared=24, shared_gate=True)
        else:
            m.network(b)
    m.end()
    k = dict(ssm__conv_kernel=4, ssm__state_size=8, ssm__group_count=2, ssm__time_step_rank=4, ssm__inner_size=32, block_count=4,
             attention__key_length=16, attention__value_length=16, rope__dimension_count=4, rope__freq_base=1e7)
    if moe:
        k.update(expert_count=6, expert_used_count=2, expert_feed_forward_length=16, expert_shared_feed_forward_length=24,
                 feed_forward_length=None)
    if arch != 'qwen3next':
        k.update(full_attention_interval=4, rope__dimension_sections=[1, 1, 0, 0])
    return keys(arch, **RMS, **k), m.t, dict(layers=4, dk=16, rot=4, theta=1e7, state=8, mix_groups=2, mix_heads=4, gated_q=True,
                                             tiled=arch != 'qwen3next')


CASES['qwen3next'] = lambda: qwen_delta('qwen3next', True)
CASES['qwen3next-old'] = lambda: qwen_delta('qwen3next', False)
CASES['qwen35'] = lambda: qwen_delta('qwen35', True, False)
CASES['qwen35moe'] = lambda: qwen_delta('qwen35moe', True)


@case
def kimi_linear():
    k, t, o = latent(False, 0, True, arch='kimi-linear')
    m = Maker(50, 3)
    for _, b in list(m.layers())[:2]:
        for c in 'qkv':
            m.lin(b + 'attn_' + c, 4 * 8, H)
            m.w(b + 'ssm_conv1d_' + c, 4 * 8, 1, 4, size=0.5)
        for name, n, width in (('f_a', 8, H), ('f_b', 32, 8), ('beta', 4, H), ('g_a', 8, H), ('g_b', 32, 8)):
            m.lin(b + 'ssm_' + name, n, width)
        m.t[b + 'ssm_a'] = -np.exp(m.r.standard_normal((4, 1)) * 0.5).astype(np.float32)
        m.w(b + 'ssm_dt', 32, size=0.3, end='.bias')
        m.norm(b + 'ssm_norm', 8)
        m.lin(b + 'attn_output', H, 32)
    mixed = {n: v for n, v in t.items() if n.startswith('blk.2.') or '.attn_' not in n or 'attn_norm' in n}
    mixed.update({n: v for n, v in m.t.items() if n.startswith('blk')})
    for n in [n for n in k if 'group' in n]:
        del k[n]
    k.update({'kimi-linear.attention.head_count_kv': [0, 0, 4], 'kimi-linear.ssm.conv_kernel': 4, 'kimi-linear.kda.head_dim': 8,
              'kimi-linear.attention.key_length_mla': 12, 'kimi-linear.attention.value_length_mla': 6})
    return k, mixed, dict(o, rope=None, groups=0)


@case
def arctic():
    k, t, o = plain('arctic', 'adjacent', ffn=dict(ff=H), k=dict(expert_count=6, expert_used_count=2))
    m = Maker(51)
    for _, b in m.layers():
        m.experts(b, ff=FF)
        m.norm(b + 'ffn_norm_exps')
    t.update({n: v for n, v in m.t.items() if 'blk' in n})
    return k, t, o


@case
def lfm2moe():
    m = Maker(18, 4)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        if i == 1:
            m.attention(b, qk='head')
        else:
            m.lin(b + 'shortconv.in_proj', 3 * H, H)
            m.w(b + 'shortconv.conv', H, 3)
            m.lin(b + 'shortconv.out_proj', H, H)
        if i:
            m.experts(b, select=True)
        else:
            m.network(b)
    m.norm('token_embd_norm')
    return (keys('lfm2moe', **RMS, block_count=4, attention__head_count_kv=[0, 2, 0, 0], shortconv__l_cache=3, rope__freq_base=1e6,
                 expert_count=6, expert_used_count=2, expert_feed_forward_length=16, leading_dense_block_count=1,
                 expert_gating_func=2), m.t, dict(layers=4, theta=1e6, score='sigmoid'))


@case
def lfm2():
    m = Maker(11, 3)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'ffn_norm'))
        if i == 1:
            m.attention(b, qk='head')
        else:
            m.lin(b + 'shortconv.in_proj', 3 * H, H)
            m.w(b + 'shortconv.conv', H, 3)
            m.lin(b + 'shortconv.out_proj', H, H)
        m.network(b)
    m.norm('token_embd_norm')
    return (keys('lfm2', **RMS, block_count=3, attention__head_count_kv=[0, 2, 0], shortconv__l_cache=3, rope__freq_base=1e6), m.t,
            dict(layers=3, theta=1e6))


@case
def rwkv7():
    m = Maker(12, 3)
    m.norm('token_embd_norm', H, True)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'attn_norm_2', 'time_mix_ln'), True)
        for name in ('receptance', 'key', 'value', 'output'):
            m.lin(b + 'time_mix_' + name, H, H)
        for c, rank in (('w', 6), ('a', 4), ('v', 3), ('g', 5)):
            m.w(f'{b}time_mix_{c}1', rank, H)
            m.w(f'{b}time_mix_{c}2', H, rank)
            if c != 'g':
                m.w(f'{b}time_mix_{c}0', H, size=0.5)
        for name in ('k_k', 'k_a', 'r_k'):
            m.w(b + 'time_mix_' + name, H, size=0.3, at=1)
        m.w(b + 'time_mix_lerp_fused', 6, 1, 1, H, size=0.3, at=0.5)
        m.w(b + 'channel_mix_lerp_k', 1, 1, H, size=0.3, at=0.5)
        m.lin(b + 'channel_mix_key', FF, H)
        m.lin(b + 'channel_mix_value', H, FF)
    m.end(bias=True)
    return (keys('rwkv7', **LN, block_count=3, attention__head_count=0, attention__head_count_kv=None, wkv__head_size=8,
                 attention__decay_lora_rank=6, attention__iclr_lora_rank=4, attention__value_residual_mix_lora_rank=3,
                 attention__gate_lora_rank=5, token_shift_count=2), m.t, dict(layers=3, norm='layer', head=8))


@case
def rwkv6():
    m = Maker(13, 3)
    m.norm('token_embd_norm', H, True)
    for i, b in m.layers():
        m.norms(b, ('attn_norm', 'attn_norm_2', 'time_mix_ln'), True)
        for name in ('receptance', 'key', 'value', 'gate', 'output'):
            m.lin(b + 'time_mix_' + name, H, H)
        m.w(b + 'time_mix_lerp_x', 1, 1, H, size=0.3, at=0.5)
        m.w(b + 'time_mix_lerp_fused', 5, 1, 1, H, size=0.3, at=0.5)
        m.w(b + 'time_mix_w1', 5 * 4, H)
        m.w(b + 'time_mix_w2', 5, H, 4)
        m.w(b + 'time_mix_decay', H, size=0.5)
        m.w(b + 'time_mix_decay_w1', 6, H)
        m.w(b + 'time_mix_decay_w2', H, 6)
        m.w(b + 'time_mix_first', 4, 8, size=0.5)
        for c in 'kr':
            m.w(b + 'channel_mix_lerp_' + c, 1, 1, H, size=0.3, at=0.5)
        m.lin(b + 'channel_mix_key', FF, H)
        m.lin(b + 'channel_mix_value', H, FF)
        m.lin(b + 'channel_mix_receptance', H, H)
    m.end(bias=True)
    return (keys('rwkv6', **LN, block_count=3, attention__head_count=0, attention__head_count_kv=None, wkv__head_size=8,
                 time_mix_extra_dim=4, time_decay_extra_dim=6, rescale_every_n_layers=2, token_shift_count=2), m.t,
            dict(layers=3, norm='layer', head=8, rescale=2))


def rwkv6_bin():
    """rwkv.cpp's form: names of the model's own code, no keys."""
    k, t, o = CASES['rwkv6']()
    own = {'token_embd': 'emb', 'output_norm': 'ln_out', 'output': 'head', 'token_embd_norm': 'blocks.0.ln0'}
    part = {'attn_norm': 'ln1', 'attn_norm_2': 'ln2', 'time_mix_ln': 'att.ln_x', 'time_mix_lerp_x': 'att.time_maa_x',
            'time_mix_w1': 'att.time_maa_w1', 'time_mix_w2': 'att.time_maa_w2', 'time_mix_decay': 'att.time_decay',
            'time_mix_decay_w1': 'att.time_decay_w1', 'time_mix_decay_w2': 'att.time_decay_w2', 'time_mix_first': 'att.time_faaaa',
            'channel_mix_lerp_k': 'ffn.time_maa_k', 'channel_mix_lerp_r': 'ffn.time_maa_r'}
    part.update({'time_mix_' + n: 'att.' + n for n in ('receptance', 'key', 'value', 'gate', 'output')})
    part.update({'channel_mix_' + n: 'ffn.' + n for n in ('receptance', 'key', 'value')})
    out = {}
    for name, a in t.items():
        blk, end = name.split('.')[:2], name.rsplit('.', 1)[1]
        if blk[0] != 'blk':
            out[f"{own[name.rsplit('.', 1)[0]]}.{end}"] = a
            continue
        b, n = f'blocks.{blk[1]}.', name.split('.')[2]
        if n == 'time_mix_lerp_fused':
            out.update({b + 'att.time_maa_' + c: v.reshape(-1) for c, v in zip('wkvrg', a)})
        elif '.time_' in '.' + part[n].split('.', 1)[-1]:
            out[b + part[n]] = a[..., None] if n == 'time_mix_first' else a if n.endswith(('w1', 'w2')) else a.reshape(-1)
        else:
            out[b + part[n] + '.' + end] = a
    return None, out, dict(o, all=t, rescale=100, eps=1e-5)


CASES['rwkv6-bin'] = rwkv6_bin


# ------------------------------------------------------------------- Gemma 3n and 4
def gemma_layers(m, kinds, shared, kv, dk, dk_global, keys_only=False):
    for i, b in m.layers():
        local = kinds[i]
        d = dk if local else dk_global
        m.norms(b, ('attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'))
        m.lin(b + 'attn_q', 4 * d, H)
        m.norm(b + 'attn_q_norm', d)
        if i < m.L - shared:
            m.lin(b + 'attn_k', kv[i] * d, H)
            m.norm(b + 'attn_k_norm', d)
            if local or not keys_only:
                m.lin(b + 'attn_v', kv[i] * d, H)
        m.lin(b + 'attn_output', H, 4 * d)


def gemma_own(m, n):
    m.w('per_layer_token_embd', V, m.L * n, size=1)
    m.lin('per_layer_model_proj', m.L * n, H)
    m.norm('per_layer_proj_norm', n)
    for _, b in m.layers():
        m.lin(b + 'inp_gate', n, H)
        m.lin(b + 'proj', H, n)
        m.norm(b + 'post_norm')


def gemma4(ple, moe, shared):
    kinds, kv = [True, False, True, True, False, False][:6], [2, 1, 2, 2, 1, 1]
    m, ff = Maker(40, 6), [48, 48, 48, 48, 96, 96]
    gemma_layers(m, kinds, shared, kv, 8, 16, keys_only=moe)
    for i, b in m.layers():
        m.network(b, ff=ff[i])
        m.w(b + 'layer_output_scale', 1, size=0.1, at=1)
        if moe:
            m.experts(b, ff=16)
            m.norms(b, ('post_ffw_norm_1', 'post_ffw_norm_2', 'pre_ffw_norm_2'))
            m.w(b + 'ffn_gate_inp', H, size=0.3, end='.scale', at=1)
            m.w(b + 'ffn_down_exps', 6, size=0.3, end='.scale', at=1)
    if ple:
        gemma_own(m, ple)
    m.end(False)
    freqs = np.array([1, 1, 1, 1e30, 1e30, 1e30, 1e30, 1e30], np.float32)
    m.t['rope_freqs.weight'] = freqs
    k = keys('gemma4', **RMS, block_count=6, attention__head_count_kv=kv, feed_forward_length=ff, attention__key_length=16,
             attention__value_length=16, attention__key_length_swa=8, attention__value_length_swa=8, rope__dimension_count=16,
             rope__dimension_count_swa=8, rope__freq_base=1e6, rope__freq_base_swa=1e4, attention__sliding_window=4,
             attention__sliding_window_pattern=kinds, attention__shared_kv_layers=shared, final_logit_softcapping=30.0,
             embedding_length_per_layer_input=ple)
    if moe:
        k.update({'gemma4.expert_count': 6, 'gemma4.expert_used_count': 2, 'gemma4.expert_feed_forward_length': 16})
    return k, m.t, dict(model=Gemma, layers=6, dk=8, dk_global=16, shared=shared, ple=ple, act='gelu-tanh', window=4,
                        is_window=lambda i: kinds[i], theta=1e6, theta_window=1e4, freqs=freqs, logit_cap=30)


CASES['gemma4'] = lambda: gemma4(0, False, 0)
CASES['gemma4-moe'] = lambda: gemma4(0, True, 0)
CASES['gemma4-small'] = lambda: gemma4(8, False, 2)


@case
def gemma3n():
    kinds = [True, False, True, False, True, False]
    m = Maker(41, 6)
    gemma_layers(m, kinds, 2, [2] * 6, 8, 8)
    gemma_own(m, 8)
    m.w('altup_proj', 3, H, H)
    m.w('altup_unembd_proj', 3, H, H)
    for _, b in m.layers():
        m.network(b)
        m.norm(b + 'altup_router_norm')
        m.lin(b + 'altup_router', 4, H)
        m.lin(b + 'altup_predict_coef', 16, 4)
        m.lin(b + 'altup_correct_coef', 4, 4)
        m.w(b + 'altup_correct_scale', H, size=0.2, at=1)
        m.lin(b + 'laurel_l', 8, H)
        m.lin(b + 'laurel_r', H, 8)
        m.norm(b + 'laurel_post_norm')
    m.end(False)
    return (keys('gemma3n', **RMS, block_count=6, attention__key_length=8, attention__value_length=8, rope__freq_base=1e6,
                 attention__sliding_window=4, attention__sliding_window_pattern=kinds, attention__shared_kv_layers=2,
                 embedding_length_per_layer_input=8, altup__num_inputs=4, altup__active_idx=0), m.t,
            dict(model=Streams, layers=6, dk=8, dk_global=8, shared=2, ple=8, act='gelu-tanh', window=4,
                 is_window=lambda i: kinds[i], theta=1e6, theta_window=1e4, logit_cap=30, ddof=0))


# --------------------------------------------------------------------------- whole
def main():
    nmbench, folder = sys.argv[1:3]
    bad = 0
    names = sys.argv[3:] or list(CASES)
    for name in names:
        k, t, o = CASES[name]()
        path, version, parts, part = f'{folder}/{name}.gguf', o.pop('version', 3), o.pop('parts', 0), o.pop('part', 1)
        if k is None:
            path = f'{folder}/{name}.bin'
            write_rwkv(path, t)
        elif parts:
            path = write_parts(f'{folder}/{name}', k, t, parts).replace('-00001', f'-{part:05}')
        else:
            write(path, k, t, version)
        lacks = o.pop('lacks', None)
        want = None if lacks else o.pop('model', Model)(o.pop('all', t), **{'eps': 1e-3, **o}).run(TOKENS)
        p = subprocess.run([nmbench, 'logits', path, '--tokens', ','.join(map(str, TOKENS)), '--json'], capture_output=True, text=True)
        if lacks and f"tensor '{lacks}' is missing" in p.stderr:
            continue
        if p.returncode or lacks:
            print(f'FAIL {name}: {p.stderr.strip()}')
            bad += 1
            continue
        got = np.array(json.loads(p.stdout)['logits'])
        off = np.abs(got - want) - 1e-4 * np.abs(want)
        if off.max() > 1e-4:
            print(f'FAIL {name}: off by {off.max():.3g} at position {off.max(1).argmax()}; first {off.max(1)[0]:.3g}')
            bad += 1
    print(f'{len(names)} architectures, {bad} failures')
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
